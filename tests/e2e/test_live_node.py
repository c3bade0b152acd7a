"""A node that is live: what it serves to whom, what holds on it, what a run and a look do to it.

Its replicas become more and smaller and fewer and larger. At last it comes up sick, three times.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

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
from tests.e2e.site.test_check_lab import HEALTHY, check, config, cut_off, left_by
from tests.e2e.site.test_init_lab import fingerprint, init
from tests.lab.own_network import join
from tests.lab.paths import host_address

NODE = HEALTHY
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
        "-not -path '/var/lib/b200kit/agent/*' -exec md5sum {} + ; dpkg -l; "
        "systemctl list-units --no-legend --state=active --type=service | awk '{print $1}' | "
        "grep -v session) 2>/dev/null | sort | md5sum",
    )


def test_check_without_an_inventory_leaves_nothing_not_even_where_the_connection_breaks(
    first: Outcome,
) -> None:
    join()
    codes = []
    assert left_by(NODE, lambda: codes.append(check(NODE).code)) == set()
    assert codes == [0]
    assert left_by(NODE, cut_off) == set()


def test_init_believes_no_key_that_nobody_compared_and_leaves_nothing(
    first: Outcome, tmp_path: Path
) -> None:
    join()
    strangers, site = config(tmp_path, UserKnownHostsFile="/dev/null"), tmp_path / "site"
    refused = init(strangers, site, NODE)
    assert (refused.code, site.exists()) == (3, False)
    assert fingerprint(NODE) in refused.err
    said, vouched = [], ("--fingerprint", f"{NODE}={fingerprint(NODE)}")
    assert left_by(NODE, lambda: said.append(init(strangers, site, NODE, *vouched))) == set()
    assert said[0].code == 0, said[0].said
    assert "compared by you" in (site / "inventories/known_hosts").read_text()


def test_node_whose_key_an_authority_certifies_is_believed_and_by_no_other(
    first: Outcome, tmp_path: Path
) -> None:
    def keygen(*words: str) -> None:
        subprocess.run(["ssh-keygen", "-q", *words], check=True, capture_output=True)

    for name in ("authority", "other"):
        keygen("-t", "ed25519", "-N", "", "-f", str(tmp_path / name))
        marked = f"@cert-authority * {(tmp_path / name).with_suffix('.pub').read_text()}"
        (tmp_path / f"hosts-{name}").write_text(marked)
    host_key = tmp_path / "host.pub"
    host_key.write_text(on(NODE, "cat /etc/ssh/ssh_host_ed25519_key.pub"))
    keygen(
        "-s", str(tmp_path / "authority"), "-I", NODE, "-h", "-n", host_address(NODE), str(host_key)
    )
    certificate = (tmp_path / "host-cert.pub").read_text()
    on(NODE, f"echo '{certificate}' > /etc/ssh/host-cert.pub")
    on(NODE, "echo HostCertificate /etc/ssh/host-cert.pub > /etc/ssh/sshd_config.d/cert.conf")
    on(NODE, "systemctl reload ssh")
    try:
        runs = {
            name: deploy("check.py", "--data", f"ssh_known_hosts_file={tmp_path / f'hosts-{name}'}")
            for name in ("authority", "other")
        }
    finally:
        on(NODE, "rm /etc/ssh/sshd_config.d/cert.conf /etc/ssh/host-cert.pub; systemctl reload ssh")
    assert runs["authority"].outcome(NODE) == "fit", runs["authority"].said[-3000:]
    assert runs["other"].outcome(NODE) == "unreachable", runs["other"].said[-3000:]
    assert "shows no certificate that an authority" in runs["other"].said


SMALL = ("--data", "replicas=4", "--data", "tensor_parallel=2")
GIVEN = "tr '\\0' '\\n' </proc/$(systemctl show -P MainPID vllm@{}.service)/environ | sed -n {}"


def units(replicas: int) -> list[str]:
    """The units of so many replicas."""
    return [f"vllm@{number}.service" for number in range(replicas)]


def property_of(unit: str, name: str) -> int:
    """A time stamp of a unit, as systemd has it."""
    return int(on(NODE, f"systemctl show -P {name} {unit}"))


def placement(outcome: Outcome) -> str:
    """What the proof says of the GPUs that the replicas were started with."""
    findings = outcome.host(NODE)["verdict"]["findings"]
    found = [f for f in findings if f["check"] == "placement.gpus"]
    return "; ".join(f"{f['status']}: {f['summary']}" for f in found)


def assert_each_began_when_the_last_had_ended(replicas: int, before: int) -> None:
    """By systemd's clock: no replica was started while one of the old groups still ran."""
    old, now = units(min(before, replicas)), units(replicas)
    ended = max(property_of(unit, "InactiveEnterTimestampMonotonic") for unit in old)
    began = min(property_of(unit, "ExecMainStartTimestampMonotonic") for unit in now)
    assert 0 < ended < began
    given = [on(NODE, GIVEN.format(n, "s/^CUDA_VISIBLE_DEVICES=//p")) for n in range(replicas)]
    assert len({gpu for gpus in given for gpu in gpus.split(",")}) == 8


@pytest.fixture(scope="module")
def smaller(first: Outcome) -> Outcome:
    """Four replicas of two GPUs are asked for while two of four serve: it is drained first."""
    return deploy("b200.py", *SMALL)


def test_more_and_smaller_replicas_start_when_the_old_ones_have_ended(smaller: Outcome) -> None:
    assert smaller.code == 0, smaller.said[-3000:]
    assert placement(smaller) == "pass: every replica has the GPUs that the layout gives it"
    assert_each_began_when_the_last_had_ended(replicas=4, before=2)


def test_fewer_and_larger_replicas_start_when_the_old_ones_have_ended(smaller: Outcome) -> None:
    checked = deploy("check.py")
    assert checked.code == 1
    assert "which the layout gives others" in placement(checked)
    larger = deploy()
    assert larger.code == 0, larger.said[-3000:]
    assert_each_began_when_the_last_had_ended(replicas=2, before=4)
    assert on(NODE, "ls /etc/vllm").split() == ["replica-0.yaml", "replica-1.yaml"]
    assert on(NODE, "systemctl is-active vllm@2.service || true") == "inactive"
    again = deploy()
    assert [stage for stage in again.host(NODE)["stages"] if stage["changes"]] == []


def boot_with(scenario: str) -> None:
    """The node comes up with other hardware."""
    before = on(NODE, "cat /proc/sys/kernel/random/boot_id")
    lab.set_scenario(NODE, scenario)
    lab.run(NODE, ["systemd-run", "--on-active=1", "systemctl", "reboot"])
    wait_for_boot(NODE, before)


def test_live_node_that_comes_up_sick_does_not_serve(first: Outcome) -> None:
    boot_with("gpu2-no-nvlink")
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


@pytest.mark.parametrize(
    ("scenario", "state", "cause"),
    [
        ("bring-up-nvlsm-dies", "subnet manager", "nvlsm does not run"),
        ("bring-up-manager-masked", "fabric manager", "is not active (masked, inactive"),
    ],
)
def test_daemon_that_systemd_cannot_keep_up_is_named_with_what_to_do(
    first: Outcome, scenario: str, state: str, cause: str
) -> None:
    """The states of a bring-up that are systemd's; all others are judged over recorded nodes."""
    boot_with(scenario)
    stuck = deploy("b200.py", "--data", "fabric_deadline_s=12")
    assert (stuck.outcome(NODE), stuck.host(NODE)["stage"]) == ("red", "gate")
    [fabric] = [stage for stage in stuck.host(NODE)["stages"] if stage["name"] == "fabric"]
    assert fabric["detail"].startswith(f"stuck at {state}: "), fabric
    assert cause in fabric["detail"]
    assert " -> restart-service: nvidia-fabricmanager.service" in fabric["detail"]
    assert cause in stuck.host(NODE)["error"], stuck.described(NODE)
