"""Units on a running node: hardened as systemd sees it, and safe where something is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import tests.lab as lab
from tests.e2e.conftest import Live
from tests.e2e.driving import Outcome, deploy, on
from tests.e2e.tools import acting, hardened
from tests.lab.paths import host_address

NODE = "b200-1"
UNIT = "vllm@0.service"
CONF = "/run/b200-lab/nvml.conf"
# What none of the units has to do, each with the same sandbox around it.
ACTS = {
    "write to the system": "touch /etc/act",
    "write to the program": "touch /usr/local/lib/b200kit/act",
    "read a home": "ls /root/act",
    "speak IP": "python3 -Ic 'import socket; socket.socket()'",
    "mount": "mount -t tmpfs none /mnt",
    "make a device": "mknod /run/act-device c 1 3",
    "give a file away": "chown nobody /run/act",
    "enter a namespace": "unshare --net true",
    "become another user": "setpriv --reuid 65534 true",
}
# A home may hold models.
MAY = {"b200-gate.service": {"read a home"}}
CAP = ("--data", 'settings={"power_limit_w": 700}')


@pytest.fixture(scope="module")
def served(live: Live) -> Outcome:
    """A node that serves, with a site's power cap, so that it has every unit."""
    live(1)
    outcome = deploy("b200.py", *CAP)
    assert outcome.outcome(NODE) == "live", outcome.described(NODE)
    return outcome


@pytest.fixture
def stopped(served: Outcome) -> Iterator[None]:
    """Replica 0 is stopped for a test, and runs as before afterwards."""
    on(NODE, f"systemctl stop {UNIT}")
    yield
    done = lab.run(NODE, ["sh", "-c", f"systemctl reset-failed {UNIT}; systemctl start {UNIT}"])
    assert done.returncode == 0, done.stderr


def said() -> str:
    """What the unit's journal has."""
    return on(NODE, f"journalctl -u {UNIT} -b -o cat --no-pager -n 60")


def test_units_are_hardened_as_systemd_sees_them(served: Outcome) -> None:
    for number in (0, 1):
        hardened.assert_properties_are_in_force(NODE, f"vllm@{number}.service")
        assert hardened.exposure(NODE, f"vllm@{number}.service") <= hardened.EXPOSURE


@pytest.mark.parametrize("unit", ["b200-gate.service", "b200-acs.service", "b200-power.service"])
def test_unit_that_looks_or_writes_one_register_can_do_nothing_else(
    served: Outcome, unit: str
) -> None:
    script = "\n".join(f"{act} && echo 'could {name}'" for name, act in ACTS.items())
    on(NODE, "touch /root/act /run/act; cat > /run/act.sh <<'END'\n" + script + "\ntrue\nEND")
    like = "sed -e 's|^ExecStart=.*|ExecStart=/bin/sh /run/act.sh|' -e '/^Before=/d'"
    on(
        NODE,
        f"systemctl cat {unit} | {like} > /run/systemd/system/act-{unit}; "
        f"systemctl daemon-reload; systemctl restart act-{unit}",
    )
    log = on(NODE, f"journalctl -u act-{unit} -o cat --no-pager; systemctl stop act-{unit}")
    assert "Finished" in log, log
    could = {line.removeprefix("could ") for line in log.splitlines() if line[:6] == "could "}
    assert could == MAY.get(unit, set()), log


@pytest.mark.parametrize("unit", ["b200-acs.service", "b200-power.service"])
def test_unit_that_sets_one_thing_is_as_little_exposed(served: Outcome, unit: str) -> None:
    assert hardened.exposure(NODE, unit) <= hardened.EXPOSURE


def test_power_cap_is_set_again_when_the_persistence_daemon_restarts(served: Outcome) -> None:
    program, unit = "python3 -I /usr/local/lib/b200kit/node.pyz", "b200-power.service"
    on(NODE, f"{program} power-limit default; systemctl restart nvidia-persistenced.service")
    begun = f"systemctl is-active {unit} | grep -q ^activating"
    on(NODE, f"timeout 60 sh -c 'while {begun}; do sleep 0.1; done'")
    gpus = json.loads(on(NODE, f"{program} observe"))["gpus"]
    assert {gpu["power_enforced_mw"] for gpu in gpus} == {700_000}


@pytest.mark.parametrize("unit", [UNIT, "b200-agent.service"])
def test_unit_that_stays_on_loopback_reaches_no_other_address(served: Outcome, unit: str) -> None:
    """In the very control group of the running unit: its own sshd answers on loopback only."""
    group = hardened.properties(NODE, unit)["ControlGroup"]
    connect = "import socket, sys; socket.create_connection((sys.argv[1], 22), 5)"
    joined = f"echo $$ > /sys/fs/cgroup{group}/cgroup.procs && exec python3 -Ic '{connect}'"
    reached = {
        address: lab.run(NODE, ["sh", "-c", f"{joined} {address}"]).returncode == 0
        for address in ("127.0.0.1", "::1", host_address(NODE))
    }
    assert reached == {"127.0.0.1": True, "::1": True, host_address(NODE): False}


def test_nothing_but_ssh_listens_to_the_outside(served: Outcome) -> None:
    # What takes "its own address" to meet itself at takes this one.
    assert f"src {host_address(NODE)}" in on(NODE, "ip route get 192.0.2.1")
    assert set(hardened.outside(NODE).values()) <= hardened.LISTENS_OUTSIDE
    inside = on(NODE, "ss -H -ltn")
    for port in (8000, 8001, 8002):
        assert f"127.0.0.1:{port}" in inside


def test_key_is_in_no_environment_that_another_user_reads(served: Outcome) -> None:
    assert hardened.readers_of_the_key(NODE) == []


def test_units_pass_systemds_own_checker(served: Outcome) -> None:
    units = ("b200-gate.service", UNIT, "vllm.target")
    assert hardened.unit_complaints(NODE, *units) == []


def test_placement_was_observed_and_judged(served: Outcome) -> None:
    record = served.host(NODE)
    judged = {f["check"]: f for f in record["verdict"]["findings"]}
    for check in ("placement.cpus", "placement.memory", "placement.gpus"):
        assert judged[check]["status"] == "pass"
        assert judged[check]["summary"].startswith("every ")


def test_replica_on_other_cpus_is_found_by_check(served: Outcome) -> None:
    allowed = hardened.properties(NODE, UNIT)["CPUAffinity"]
    online = on(NODE, "cat /sys/devices/system/cpu/online")
    pid = on(NODE, f"systemctl show -P MainPID {UNIT}")
    on(NODE, f"taskset -pc {online} {pid}")
    checked = deploy("check.py", *CAP)
    on(NODE, f"taskset -pc {allowed} {pid}")
    assert checked.code == 1, checked.said[-2000:]
    assert f"{UNIT}: " in checked.described(NODE)
    assert f"(pid {pid}) may run on CPUs {online}" in checked.described(NODE)
    assert deploy("check.py", *CAP).code == 0


def test_stop_leaves_the_gpus_free(stopped: None) -> None:
    assert hardened.properties(NODE, UNIT)["Result"] == "success"


def test_process_that_outlives_the_stop_fails_the_unit_in_one_line(served: Outcome) -> None:
    holder = on(
        NODE, "systemd-run --quiet --unit=holder sleep 600; systemctl show -P MainPID holder"
    )
    on(NODE, f"cp {CONF} /run/conf.kept && echo gpu.1.processes={holder} >> {CONF}")
    try:
        on(NODE, f"systemctl stop {UNIT}")
        assert hardened.properties(NODE, UNIT)["Result"] == "exit-code"
        [line] = [line for line in said().splitlines() if "still held" in line]
        assert f"by pid {holder} sleep of holder.service" in line
        refused = lab.run(NODE, ["systemctl", "start", UNIT])
        assert refused.returncode != 0
        checked = deploy()
        assert "still held after" in checked.described(NODE), checked.described(NODE)
    finally:
        on(NODE, f"mv /run/conf.kept {CONF}; systemctl stop holder")
    again = deploy()
    assert again.outcome(NODE) == "live", again.described(NODE)


def test_start_is_refused_with_what_must_not_serve(stopped: None) -> None:
    folder = f"/run/systemd/system/{UNIT}.d"
    drop_in = "[Service]\\nEnvironment=VLLM_SERVER_DEV_MODE=1\\n"
    on(NODE, f"mkdir -p {folder}; printf '{drop_in}' > {folder}/z.conf; systemctl daemon-reload")
    try:
        assert lab.run(NODE, ["systemctl", "start", UNIT]).returncode != 0
        assert "refused to start: VLLM_SERVER_DEV_MODE is set" in said()
        assert hardened.properties(NODE, UNIT)["NRestarts"] == "0"
    finally:
        on(NODE, f"rm -r {folder}; systemctl daemon-reload")


def test_second_run_changes_nothing(served: Outcome) -> None:
    again = deploy()
    changed = {s["name"] for s in again.host(NODE)["stages"] if s["changes"]}
    assert changed <= {"smoke"}, changed


def test_no_local_user_can_hold_up_a_stage(served: Outcome) -> None:
    # The name that the lock once had, in a folder that is open to all.
    on(NODE, "systemd-run --quiet --uid=nobody flock /run/lock/b200kit-acting sleep 900")
    acting.node(NODE).connected().run_logged("true", "/run/acted.log", limit_s=60)
    locks = on(NODE, "find /run/b200kit /var/lib/b200kit -name '*.lock' -o -name .guard").split()
    assert "/run/b200kit/acting.lock" in locks
    tried = "setpriv --reuid 65534 --clear-groups flock -n"
    taken = on(NODE, f"for f in {' '.join(locks)}; do {tried} $f echo $f; done 2>/dev/null || true")
    assert taken == ""
