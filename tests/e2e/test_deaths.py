"""Each process of a serving node dies in turn while clients stream, and each planned stop comes.

The stand-in has vLLM's processes and dies as vLLM does (tests/lab/standin/processes.py). The table
is printed. CI has one death of each kind, the night all others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import tests.lab as lab
from tests.e2e.conftest import SHORT_SMOKE, Live
from tests.e2e.driving import Outcome, deploy, on, wait_for_boot
from tests.e2e.tools.outside import Load, Stream
from tests.lab.standin.processes import CORE, WORKER

NODE = "b200-1"
STREAMS, TOKENS = 4, 400
REPLICA, OTHER, GATEWAY = "vllm@0.service", "vllm@1.service", "haproxy.service"
WATCHDOG, GATE = "b200-agent.service", "b200-gate.service"
UNITS = (REPLICA, OTHER, GATEWAY, WATCHDOG, GATE)
PROGRAM = "python3 -I /usr/local/lib/b200kit/node.pyz"
INVOCATION = "systemctl show -p InvocationID --value"
PASSPORT = "/var/lib/b200kit/passport.json"
START = f"systemctl start {GATE} && systemctl start vllm.target {GATEWAY}"
# systemd's ten seconds before a start are not what this is about.
SOON = "/run/systemd/system/vllm@.service.d/soon.conf"
# Both replicas in rotation, every unit at work.
WHOLE = (
    f"systemctl is-active -q {' '.join(UNITS)} && "
    f'[ "$({PROGRAM} rotation list | grep -c " UP ")" = 2 ]'
)


@dataclass
class Row:
    """One death or stop of a unit, and what came of it.

    most: how many streams may be lost; looks: whether check.py looks meanwhile; then: who starts
    what somebody stopped.
    """

    name: str
    unit: str
    act: Callable[[], object]
    most: int = STREAMS
    looks: bool = False
    then: str = "true"
    began: float = 0.0
    ended: float = 0.0
    check: Outcome | None = None

    def lost(self, streams: list[Stream]) -> list[Stream]:
        """Streams of its time that were cut."""
        return [one for one in streams if one.was_lost and self.began <= one.ended <= self.ended]

    @property
    def said(self) -> str:
        """What check.py said meanwhile."""
        if self.check is None:
            return "-"
        return f"{self.check.outcome(NODE)}, exit {self.check.code}"


def kill(signal: str, unit: str, name: str = "") -> Callable[[], object]:
    """SIGKILL, or an end as if somebody had asked for it: a unit's main process, or one by name."""
    pid = f"systemctl show -p MainPID --value {unit}"
    if name:
        folder = f"/sys/fs/cgroup$(systemctl show -p ControlGroup --value {unit})"
        named = f"grep -q {name} /proc/$p/comm && echo $p"
        pid = f"for p in $(cat {folder}/cgroup.procs); do {named}; done"
    return lambda: on(NODE, f"pid=$({pid} | tail -n 1); test $pid -gt 1 && kill -{signal} $pid")


def systemctl(verb: str, unit: str) -> Callable[[], object]:
    """What a person asks of a unit."""
    return lambda: on(NODE, f"systemctl {verb} {unit}")


def reboot() -> None:
    """As a person reboots, and not as a power cut."""
    before = on(NODE, "cat /proc/sys/kernel/random/boot_id")
    on(NODE, "systemctl reboot || true")
    wait_for_boot(NODE, before)
    slower_than_systemd()


def red() -> None:
    """b200.py finds that another GPU sits there since the node was accepted."""
    on(NODE, f"sed -i 's/GPU-b2000002/GPU-b2000009/' {PASSPORT}")
    found = deploy("b200.py", *SHORT_SMOKE)
    assert found.outcome(NODE) == "red", found.described(NODE)
    on(
        NODE,
        f"sed -i 's/GPU-b2000009/GPU-b2000002/' {PASSPORT}; {START}; systemctl start {WATCHDOG}",
    )


def slower_than_systemd() -> None:
    """A dead replica stays dead for as long as check.py needs to look."""
    on(NODE, f"mkdir -p {Path(SOON).parent}; echo '[Service]\nRestartSec=4' > {SOON}")
    on(NODE, "systemctl daemon-reload")


def rows() -> list[Row]:
    """Every process of the node, then what somebody asks for."""
    return [
        Row("engine core, -9", REPLICA, kill("9", REPLICA, CORE), looks=True),
        Row("engine core, SIGTERM", REPLICA, kill("TERM", REPLICA, CORE)),
        Row("worker, -9", REPLICA, kill("9", REPLICA, WORKER)),
        Row("API server, -9", REPLICA, kill("9", REPLICA), looks=True),
        Row("API server, exit 0", REPLICA, kill("TERM", REPLICA), looks=True),
        Row("all of a replica, -9", REPLICA, systemctl("kill -s 9", REPLICA), looks=True),
        # The last of its two processes is the worker, which has the connections.
        Row("HAProxy's worker, -9", GATEWAY, kill("9", GATEWAY, "haproxy")),
        Row("HAProxy's worker, SIGTERM", GATEWAY, kill("TERM", GATEWAY, "haproxy")),
        Row("HAProxy's master, -9", GATEWAY, kill("9", GATEWAY)),
        Row("HAProxy's master, SIGTERM", GATEWAY, kill("TERM", GATEWAY)),
        Row("watchdog, -9", WATCHDOG, kill("9", WATCHDOG), most=0),
        Row("watchdog, SIGTERM", WATCHDOG, kill("TERM", WATCHDOG), most=0),
        Row("restart of a replica", REPLICA, systemctl("restart", REPLICA), most=0),
        Row("restart of the gateway", GATEWAY, systemctl("restart", GATEWAY), most=0),
        Row("stop of the gate", GATE, systemctl("stop", GATE), most=0, looks=True, then=START),
        Row("b200.py finds it red", GATEWAY, red, most=0),
        Row("reboot", GATE, reboot, most=0),
    ]


ONE_OF_EACH = (
    "engine core, -9",
    "HAProxy's worker, -9",
    "restart of a replica",
    "stop of the gate",
)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(True, id="one of each"),
        pytest.param(False, id="others", marks=pytest.mark.long),
    ],
)
def died(
    request: pytest.FixtureRequest, live: Live, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[Row], list[Stream]]:
    """All of it, one after another, under one load."""
    live(1)
    slower_than_systemd()
    told = [row for row in rows() if (row.name in ONE_OF_EACH) is request.param]
    with Load(NODE, tmp_path_factory.mktemp("load"), STREAMS, TOKENS) as load:
        for row in told:
            _take(row, load)
    return told, load.streams


def _take(row: Row, load: Load) -> None:
    before = on(NODE, f"{INVOCATION} {row.unit}")
    row.began = time.time()
    row.act()
    if row.looks:
        row.check = deploy("check.py")
    on(NODE, row.then)
    whole = f'[ "$({INVOCATION} {row.unit})" != "{before}" ] && {WHOLE}'
    done = lab.run(NODE, ["timeout", "300", "sh", "-c", f"until {whole}; do sleep 0.1; done"], 330)
    assert done.returncode == 0, f"{row.name}: not whole again"
    row.ended = time.time()
    load.wait_for_more(STREAMS)
    # Three deaths in half an hour are for the watchdog (test_watchdog.py).
    on(NODE, f"systemctl reset-failed {REPLICA} {OTHER} {GATEWAY} {WATCHDOG} || true")


def test_it_is_whole_again_after_each(
    died: tuple[list[Row], list[Stream]], capsys: pytest.CaptureFixture[str]
) -> None:
    told, streams = died
    with capsys.disabled():
        print(f"\n{'what':<34} {'lost':>4} {'whole after':>12}  check.py meanwhile")
        for row in told:
            seconds = row.ended - row.began
            print(f"{row.name:<34} {len(row.lost(streams)):>4} {seconds:>10.1f} s  {row.said}")
    assert all(row.ended > row.began for row in told)


def test_a_planned_stop_loses_no_stream_and_a_death_only_its_own(
    died: tuple[list[Row], list[Stream]],
) -> None:
    told, streams = died
    found = {row.name: row.lost(streams) for row in told}
    assert {row.name: found[row.name] for row in told if len(found[row.name]) > row.most} == {}
    # Nobody was sent to what had died: all that was lost was open before.
    late = [one for row in told for one in found[row.name] if one.sent > row.began + 1]
    assert late == []


def test_check_never_calls_a_node_fit_of_which_a_part_is_dead(
    died: tuple[list[Row], list[Stream]],
) -> None:
    seen = {row.name: row for row in died[0] if row.check is not None}
    dead = {name for name, row in seen.items() if not _all_run(row)}
    # Which others were dead when it looked is a matter of seconds.
    assert {*seen} & {"stop of the gate"} <= dead
    assert {seen[name].said for name in dead} <= {"unfit, exit 1", "unmeasured, exit 2"}


def _all_run(row: Row) -> bool:
    """Whether check.py itself saw at work again what had died."""
    assert row.check is not None
    units = row.check.host(NODE)["state"]["units"]
    names = UNITS[:3] if row.unit == GATE else (row.unit,)
    return all(units[name]["active"] == "active" for name in names)
