"""A node that nobody runs anything on renews what it has proven, and yields to whoever comes.

One live node, whose evidence is due at any age and whose hours are the whole day, but for the last
test, which ends them within two minutes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.state.proof import ProofEvidence
from tests.e2e.conftest import Live
from tests.e2e.driving import cursor, deploy, on
from tests.e2e.tools import agent_file
from tests.e2e.tools.outside import Load
from tests.lab.inventory import PATIENT

pytestmark = pytest.mark.long

NODE, UNIT = "b200-1", "b200-renew.service"
RENEW = {"window": "00:00-24:00", "idle_s": 2, "when_left": 1.0}
# Long enough for somebody to come meanwhile.
SMOKE = {**PATIENT, "requests": 40, "rate": 4.0}
DATA = (
    *("--data", f"smoke={json.dumps(SMOKE)}"),
    *("--data", "watchdog=" + json.dumps({"health_check_s": 2, "health_check_deadline_s": 25})),
    *("--data", "proof=" + json.dumps({"health_ttl_s": 60, "renew": RENEW})),
)
SMOKED = "/var/lib/b200kit/smoke.json"
RULES = "/etc/b200kit/proof.json"


@pytest.fixture(scope="module")
def serving(live: Live) -> Iterator[None]:
    """A node that serves, whose own timer does not come between."""
    live(1)
    outcome = deploy("b200.py", *DATA)
    assert outcome.code == 0, outcome.said[-3000:]
    assert on(NODE, "systemctl is-active b200-renew.timer") == "active"
    on(NODE, "systemctl stop b200-renew.timer")
    # Of this boot: a saved disk has one of another.
    agent_file.look(NODE)
    yield
    on(NODE, "systemctl start b200-renew.timer")


def smoke() -> dict[str, Any]:
    """The result that lies on the node."""
    found: dict[str, Any] = json.loads(on(NODE, f"cat {SMOKED}"))
    return found


def proven(kind: str) -> ProofEvidence:
    """One piece of evidence of the proof that lies there."""
    return next(one for one in agent_file.proof(NODE).evidence if one.kind == kind)


def said(since: str) -> str:
    """What the unit has said."""
    return on(NODE, f"journalctl -u {UNIT} -o cat --no-pager --after-cursor='{since}'")


def until(there: Callable[[], bool], since: str, seconds: float = 240) -> float:
    """Seconds until it is so."""
    began = time.monotonic()
    while not there():
        assert time.monotonic() < began + seconds, said(since)
        time.sleep(0.2)
    return time.monotonic() - began


def has_ended() -> bool:
    """Whether nothing of the unit runs."""
    return on(NODE, f"systemctl is-active {UNIT} || :") in ("inactive", "failed")


def is_measuring() -> bool:
    """Whether its smoke test is under way: then the GPUs are read."""
    processes = f"$(cat /sys/fs/cgroup/system.slice/{UNIT}/cgroup.procs)"
    look = f"for p in {processes}; do grep -lzx _gpus /proc/$p/cmdline; done 2>/dev/null; :"
    return bool(on(NODE, look))


def test_node_renews_its_evidence_without_a_controller(serving: None) -> None:
    before, since = smoke(), cursor(NODE)
    on(NODE, f"systemctl start --no-block {UNIT}")
    # As the timer does when somebody started it by hand: one measures.
    on(NODE, f"systemctl start --no-block {UNIT}")
    seconds = until(lambda: smoke()["taken_at"] != before["taken_at"], since)
    until(has_ended, since)
    after = smoke()
    assert (after["verdict"], after["fingerprint"]) == ("pass", before["fingerprint"])
    assert after["golden"]["reference"]["outcome"] in ("same", "drifted")
    until(lambda: proven("latency").taken_at == after["taken_at"], since)
    assert {proven(kind).result for kind in ("latency", "answers")} == {"pass"}
    print(f"renewed {seconds:.1f} s after its start:\n{said(since)}")


def test_controller_takes_it_for_its_own(serving: None) -> None:
    on(NODE, "systemctl start b200-renew.timer")
    again = deploy("b200.py", *DATA)
    on(NODE, "systemctl stop b200-renew.timer")
    assert (again.code, again.host(NODE)["changes"]) == (0, 0), again.described(NODE)


def test_traffic_ends_it_and_in_the_end_nothing_is_renewed(serving: None, tmp_path: Path) -> None:
    rules = json.loads(on(NODE, f"cat {RULES}"))
    ends = datetime.now(UTC) + timedelta(seconds=150)
    rules["renew"]["window"] = f"{ends - timedelta(hours=4):%H:%M}-{ends:%H:%M}"
    on(NODE, f"cp {RULES} /run/rules.json; cat > {RULES} <<'END'\n{json.dumps(rules)}\nEND")
    before, since = on(NODE, f"cat {SMOKED}"), cursor(NODE)
    try:
        on(NODE, f"systemctl start --no-block {UNIT}")
        until(is_measuring, since)
        with Load(NODE, tmp_path, 4, 40) as load:
            until(lambda: "requests of others came" in said(since), since)
            until(has_ended, since)
    finally:
        on(NODE, f"systemctl stop {UNIT}; cp /run/rules.json {RULES}")
    assert "could not be measured again" in said(since)
    assert on(NODE, f"systemctl show -P Result {UNIT}") == "success"
    assert on(NODE, f"cat {SMOKED}") == before
    assert len(load.streams) > 8
    assert [one.error for one in load.streams if one.error] == []
    print(f"{len(load.streams)} streams, none lost:\n{said(since)}")
