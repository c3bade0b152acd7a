"""A fleet with three sick nodes: one run, exactly the healthy node serves; again, and no change."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tests.lab as lab
from tests.e2e.driving import (
    ROOT,
    Outcome,
    cursor,
    deploy,
    ever_started,
    on,
    remote_commands,
    wait_for_boot,
)
from tests.lab.paths import lab_paths

SICK = {
    "b200-2": ("gpu2-no-nvlink", "GPU 2 has no NVLink: 0 of 18 links up"),
    "b200-3": ("fabric-in-progress", "GPU 0 fabric is in progress, not completed"),
    "b200-4": ("seven-gpus", "7 of 8 GPUs are on the PCI bus; module 5 is missing"),
}
# What a run with nothing to do may cost a node, as the README promises.
MOST_COMMANDS = 8


@pytest.fixture(scope="module")
def first(boot: Callable[..., Any]) -> Outcome:
    """The first run over the whole fleet."""
    boot("healthy", *(scenario for scenario, _ in SICK.values()))
    return deploy()


def test_exactly_the_healthy_node_is_live(first: Outcome) -> None:
    assert first.code == 1, first.said
    assert first.outcome("b200-1") == "live", first.told("b200-1")
    assert {name: first.outcome(name) for name in SICK} == dict.fromkeys(SICK, "red")


@pytest.mark.parametrize("name", SICK)
def test_sick_node_is_refused_by_the_name_of_its_fault(first: Outcome, name: str) -> None:
    assert first.host(name)["stage"] == "gate"
    assert SICK[name][1] in first.host(name)["error"], first.told(name)


@pytest.mark.parametrize("name", SICK)
def test_serving_was_never_started_on_a_sick_node(first: Outcome, name: str) -> None:
    assert not ever_started(name, "vllm@0.service")
    assert on(name, "ls /etc/systemd/system/vllm@.service 2>/dev/null") == ""
    assert on(name, "ss -ltnH 'sport = :8000'") == ""


def test_fabric_that_does_not_complete_names_its_gpus(first: Outcome) -> None:
    findings = first.host("b200-3")["verdict"]["findings"]
    state = [finding for finding in findings if finding["check"] == "fabric.state"]
    failed = {finding["subject"] for finding in state if finding["status"] == "fail"}
    assert failed == {f"GPU {index}" for index in range(8)}


def test_missing_gpu_is_named_by_what_is_left(first: Outcome) -> None:
    findings = first.host("b200-4")["verdict"]["findings"]
    count = next(finding for finding in findings if finding["check"] == "identity.pci-count")
    assert (count["status"], count["part"]) == ("fail", "module 5"), count
    assert count["action"] == "power-cycle"


def test_failed_list_names_the_sick_nodes(first: Outcome) -> None:
    assert first.directory is not None
    assert (first.directory / "failed.txt").read_text().split() == list(SICK)


def test_healthy_node_answers_through_its_one_endpoint(first: Outcome) -> None:
    key = lab_paths().api_key.read_text().strip()
    ask = (
        "import json,urllib.request as u;"
        f"h={{'Authorization':'Bearer {key}'}};"
        "r=u.Request('http://127.0.0.1:8000/v1/models',headers=h);"
        "print(json.load(u.urlopen(r))['data'][0]['id'])"
    )
    assert lab.run("b200-1", ["python3", "-c", ask]).stdout.strip() == "tiny-llama"


def test_endpoint_refuses_without_the_key_and_off_the_allow_list(first: Outcome) -> None:
    codes = on(
        "b200-1",
        'python3 -c "import urllib.request as u, urllib.error as e\n'
        "for path in ('/v1/models', '/metrics', '/v1/chat/completions/../../metrics'):\n"
        "    try: print(u.urlopen('http://127.0.0.1:8000' + path).status)\n"
        '    except e.HTTPError as x: print(x.code)"',
    )
    assert codes.split() == ["401", "403", "403"]


def test_only_loopback_listens_for_clients(first: Outcome) -> None:
    listening = first.host("b200-1")["state"]["listening"]
    public = [a for a in listening if not a.startswith(("127.", "[::1]"))]
    assert all(address.endswith(":22") for address in public), listening


def test_lockstep_set_held_though_a_newer_driver_is_published(first: Outcome) -> None:
    published = on("b200-1", "apt-cache madison nvidia-open")
    assert "590.48.01" in published
    assert "580.159.03" in published
    versions = on(
        "b200-1",
        "dpkg-query -W -f '${Version}\\n' nvidia-open nvidia-fabricmanager libnvidia-nscq "
        "libnvsdm libnvidia-compute nvidia-persistenced",
    )
    assert set(versions.split()) == {"580.126.20-1"}
    on("b200-1", "apt-get -y dist-upgrade")
    assert on("b200-1", "dpkg-query -W -f '${Version}' nvidia-open") == "580.126.20-1"


def test_stand_in_engine_is_marked_as_one(first: Outcome) -> None:
    assert "STAND-IN" in first.stdout
    assert first.directory is not None
    assert "STAND-IN" in (first.directory / "report.html").read_text().upper()


@pytest.fixture(scope="module")
def second(first: Outcome) -> tuple[Outcome, int]:
    """A second run over the healthy node, with sshd's own count of its commands."""
    before = cursor("b200-1")
    outcome = deploy("b200.py", "--limit", "b200-1")
    return outcome, remote_commands("b200-1", before)


def test_second_run_changes_nothing(second: tuple[Outcome, int]) -> None:
    outcome, _ = second
    assert outcome.code == 0, outcome.said
    assert outcome.host("b200-1")["changes"] == 0
    assert outcome.host("b200-1")["smoke"]["verdict"] == "pass"
    assert outcome.host("b200-1")["smoke_age_s"] > 0


def test_second_run_takes_few_remote_commands(
    second: tuple[Outcome, int], capsys: pytest.CaptureFixture[str]
) -> None:
    outcome, counted = second
    cost = outcome.summary["controller"]
    with capsys.disabled():
        print(
            f"\nno-op run: {counted} remote commands a node (sshd's count), "
            f"{cost['wall_s']:.1f} s wall, {cost['cpu_s']:.2f} s controller CPU"
        )
    assert 0 < counted <= MOST_COMMANDS
    assert counted == outcome.host("b200-1")["commands"]


def test_check_agrees_and_changes_nothing(first: Outcome) -> None:
    before = {name: _fingerprint(name) for name in ("b200-1", *SICK)}
    checked = deploy("check.py")
    assert checked.code == 1
    assert checked.outcome("b200-1") == "fit", checked.told("b200-1")
    assert all(checked.outcome(name) in ("unfit", "unmeasured") for name in SICK)
    assert {name: _fingerprint(name) for name in before} == before


def _fingerprint(name: str) -> str:
    """Digest of what a deploy could have changed on a node."""
    return on(
        name,
        "(find /etc /usr/local /opt /srv /var/lib/b200kit -xdev -newer /etc/machine-id -type f "
        # What the watchdog goes on writing for itself.
        "-not -path '/var/lib/b200kit/watchdog/*' -exec md5sum {} + ; dpkg -l; "
        "systemctl list-units --no-legend --state=active --type=service | awk '{print $1}' | "
        "grep -v session) 2>/dev/null | sort | md5sum",
    )


@pytest.mark.parametrize("name", ["b200-1", *SICK])
def test_judge_over_the_recorded_state_agrees_with_the_run(
    first: Outcome, name: str, tmp_path: Path
) -> None:
    record = first.host(name)
    (tmp_path / "state.json").write_text(json.dumps(record["state"]))
    (tmp_path / "expect.json").write_text(json.dumps(record["expectation"]))
    judged = subprocess.run(
        [
            Path(sys.executable).with_name("b200"),
            "judge",
            tmp_path / "state.json",
            "--expect",
            tmp_path / "expect.json",
            "--json",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    fits = {"fit": 0, "unfit": 1, "unmeasured": 2}
    assert judged.returncode == fits[record["verdict"]["fit"]], judged.stderr
    assert (judged.returncode == 0) is (record["outcome"] == "live")


def test_node_judges_itself_at_boot_as_the_run_did(first: Outcome) -> None:
    assert on("b200-1", "systemctl is-active b200-gate.service") == "active"
    gate = lab.run("b200-2", ["systemctl", "start", "b200-gate.service"])
    assert gate.returncode != 0
    assert "GPU 2 has no NVLink" in on("b200-2", "journalctl -u b200-gate -o cat --no-pager")


def test_replica_that_is_no_longer_asked_for_is_gone(first: Outcome) -> None:
    fewer = deploy("b200.py", "--limit", "b200-1", "--data", "replicas=1")
    assert fewer.code == 0, fewer.said[-3000:]
    assert on("b200-1", "systemctl is-active vllm@0.service vllm@1.service").split() == [
        "active",
        "inactive",
    ]
    again = deploy("b200.py", "--limit", "b200-1", "--data", "replicas=1")
    assert again.host("b200-1")["changes"] == 0


def test_live_node_that_comes_up_sick_does_not_serve(first: Outcome) -> None:
    before = on("b200-1", "cat /proc/sys/kernel/random/boot_id")
    lab.set_scenario("b200-1", "gpu2-no-nvlink")
    lab.run("b200-1", ["systemd-run", "--on-active=1", "systemctl", "reboot"])
    wait_for_boot("b200-1", before)
    # Joins the gate's own job of this boot and ends as it does.
    assert lab.run("b200-1", ["systemctl", "start", "b200-gate.service"]).returncode != 0
    units = "vllm@0.service vllm@1.service haproxy.service"
    assert "active" not in on("b200-1", f"systemctl is-active {units}").split()
    again = deploy("b200.py", "--limit", "b200-1")
    assert again.code == 1
    assert again.told("b200-1").startswith("red at gate: GPU 2 has no NVLink"), again.told("b200-1")
