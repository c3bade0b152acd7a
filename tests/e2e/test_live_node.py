"""A node that is live: what it serves to whom, what holds on it, and what a run does to it."""

from __future__ import annotations

import pytest

import tests.lab as lab
from tests.e2e.conftest import Live
from tests.e2e.driving import (
    Outcome,
    cursor,
    deploy,
    on,
    remote_commands,
    wait_for_boot,
)

NODE = "b200-1"
# What a run with nothing to do may cost a node, as the README promises.
MOST_COMMANDS = 8


@pytest.fixture(scope="module")
def first(live: Live) -> Outcome:
    """A node that is live, measured in this boot."""
    live(1)
    outcome = deploy()
    assert outcome.code == 0, outcome.said[-3000:]
    return outcome


def test_endpoint_refuses_without_the_key_and_off_the_allow_list(first: Outcome) -> None:
    codes = on(
        NODE,
        'python3 -c "import urllib.request as u, urllib.error as e\n'
        "for path in ('/v1/models', '/metrics', '/v1/chat/completions/../../metrics'):\n"
        "    try: print(u.urlopen('http://127.0.0.1:8000' + path).status)\n"
        '    except e.HTTPError as x: print(x.code)"',
    )
    assert codes.split() == ["401", "403", "403"]


def test_only_loopback_listens_for_clients(first: Outcome) -> None:
    listening = first.host(NODE)["state"]["listening"]
    public = [a for a in listening if not a.startswith(("127.", "[::1]"))]
    assert all(address.endswith(":22") for address in public), listening


def test_lockstep_set_held_though_a_newer_driver_is_published(first: Outcome) -> None:
    published = on(NODE, "apt-cache madison nvidia-open")
    assert "590.48.01" in published
    assert "580.159.03" in published
    versions = on(
        NODE,
        "dpkg-query -W -f '${Version}\\n' nvidia-open nvidia-fabricmanager libnvidia-nscq "
        "libnvsdm libnvidia-compute nvidia-persistenced",
    )
    assert set(versions.split()) == {"580.126.20-1"}
    on(NODE, "apt-get -y dist-upgrade")
    assert on(NODE, "dpkg-query -W -f '${Version}' nvidia-open") == "580.126.20-1"


def test_stand_in_engine_is_marked_as_one(first: Outcome) -> None:
    assert "STAND-IN" in first.stdout
    assert first.directory is not None
    assert "STAND-IN" in (first.directory / "report.html").read_text().upper()


def test_program_of_the_node_is_imported_as_it_was_compiled(first: Outcome) -> None:
    imported = on(NODE, "python3 -I -v /usr/local/lib/b200kit/node.pyz 2>&1 | grep node.cli")
    assert "/usr/local/lib/b200kit/node-" in imported
    assert 'zipimporter object "/usr/local/lib/b200kit/node.pyz' not in imported


@pytest.fixture(scope="module")
def second(first: Outcome) -> tuple[Outcome, int]:
    """A second run over the healthy node, with sshd's own count of its commands."""
    before = cursor(NODE)
    outcome = deploy()
    return outcome, remote_commands(NODE, before)


def test_second_run_changes_nothing(second: tuple[Outcome, int]) -> None:
    outcome, _ = second
    assert outcome.code == 0, outcome.said
    assert outcome.host(NODE)["changes"] == 0
    assert outcome.host(NODE)["smoke"]["verdict"] == "pass"
    assert outcome.host(NODE)["smoke_age_s"] > 0


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
    assert counted == outcome.host(NODE)["commands"]


def test_check_agrees_and_changes_nothing(first: Outcome) -> None:
    before = _fingerprint(NODE)
    checked = deploy("check.py")
    assert checked.code == 0
    assert checked.outcome(NODE) == "fit", checked.described(NODE)
    assert _fingerprint(NODE) == before


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


def test_replica_that_is_no_longer_asked_for_is_gone(first: Outcome) -> None:
    fewer = deploy("b200.py", "--data", "replicas=1")
    assert fewer.code == 0, fewer.said[-3000:]
    assert on(NODE, "systemctl is-active vllm@0.service vllm@1.service").split() == [
        "active",
        "inactive",
    ]
    again = deploy("b200.py", "--data", "replicas=1")
    assert again.host(NODE)["changes"] == 0


def test_live_node_that_comes_up_sick_does_not_serve(first: Outcome) -> None:
    before = on(NODE, "cat /proc/sys/kernel/random/boot_id")
    lab.set_scenario(NODE, "gpu2-no-nvlink")
    lab.run(NODE, ["systemd-run", "--on-active=1", "systemctl", "reboot"])
    wait_for_boot(NODE, before)
    # Joins the gate's own job of this boot and ends as it does.
    assert lab.run(NODE, ["systemctl", "start", "b200-gate.service"]).returncode != 0
    units = "vllm@0.service vllm@1.service haproxy.service"
    assert "active" not in on(NODE, f"systemctl is-active {units}").split()
    assert deploy("check.py").outcome(NODE) == "unfit"
    again = deploy()
    assert again.code == 1
    assert (again.outcome(NODE), again.host(NODE)["stage"]) == ("red", "gate"), again.described(
        NODE
    )
    failed = [f for f in again.host(NODE)["verdict"]["findings"] if f["status"] == "fail"]
    assert {finding["subject"] for finding in failed} == {"GPU 2"}
