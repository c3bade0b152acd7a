"""Evidence that runs out on nodes that are never idle is renewed in waves, and no stream is lost.

Two live nodes behind the fleet's endpoints. No GPU moves data here: the tools that measure
bandwidth are those of the unit tests, which print what the real ones print.
"""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.lib import timestamp
from b200kit.node.lib.documents import unstructure
from tests.e2e.conftest import SHORT, Live
from tests.e2e.driving import ROOT, deploy, on, plan
from tests.e2e.tools import agent_file
from tests.e2e.tools.fleet_load import under_load, until, words

pytestmark = pytest.mark.long

NODES = ("b200-1", "b200-2")
TOOLS = ("nvbandwidth", "all_reduce_perf")
SMOKE = "/var/lib/b200kit/smoke.json"
RESULT = "/var/lib/b200kit/bandwidth.json"
DATA = words(bandwidth="required", smoke=SHORT)


@pytest.fixture(scope="module")
def serving(live: Live) -> None:
    """Nodes that serve, with the tools."""
    live(len(NODES))
    outcome = deploy("b200.py", *words(smoke=SHORT))
    assert outcome.code == 0, outcome.said[-4000:]
    for tool in TOOLS:
        text = (ROOT / "tests/unit/node/tools" / tool).read_text()
        for name in NODES:
            put(name, f"/usr/local/bin/{tool}", text)
            on(name, f"chmod 755 /usr/local/bin/{tool}")


def put(name: str, path: str, text: str) -> None:
    """A file on a node."""
    on(name, f"cat > {path} <<'EOF-OF-IT'\n{text}\nEOF-OF-IT")


def evidence(name: str) -> dict[str, Any]:
    """What a node proves of its bandwidth."""
    found = {one.kind: unstructure(one) for one in agent_file.proof(name).evidence}
    return {"standing": agent_file.worth(name).standing, **found}


def is_standing(name: str, word: str) -> bool:
    """Whether a node says so of its proof."""
    return bool(evidence(name)["standing"] == word)


def outlive(name: str, path: str, days: float) -> None:
    """What lies on a node was measured so long ago, as its next look finds it."""
    result = json.loads(on(name, f"cat {path}"))
    put(name, path, json.dumps(result | {"taken_at": timestamp.now(-86400 * days)}))


def test_bandwidth_is_asked_for_and_measured_while_the_fleet_serves(
    serving: None, tmp_path: Path
) -> None:
    with under_load(tmp_path, "bandwidth asked for") as found:
        run = deploy("b200.py", *DATA)
    assert run.code == 0, run.said[-6000:]
    assert found[0].lost == []
    assert found[0].least >= 1
    for name in NODES:
        assert evidence(name)["bandwidth"]["result"] == "pass"
        assert evidence(name)["standing"] == "valid"


def test_evidence_that_runs_out_is_measured_again(serving: None, tmp_path: Path) -> None:
    slow, old = NODES
    with under_load(tmp_path, "bandwidth and smoke test again") as found:
        outlive(slow, SMOKE, 6.5)
        outlive(old, RESULT, 31)
        until(partial(is_standing, slow, "expiring"), 120)
        until(partial(is_standing, old, "expired"), 120)
        dry = plan("b200.py", *DATA)
        run = deploy("b200.py", *DATA)
    print("\n".join(line for line in dry.stderr.splitlines() if re.search("would|rollout", line)))
    assert re.search(rf"{slow} +smoke +would measure TTFT", dry.stderr)
    assert re.search(rf"{old} +bandwidth +would measure .*; interrupts the gateway", dry.stderr)
    assert run.code == 0, run.said[-6000:]
    assert found[0].lost == []
    assert found[0].least >= 1
    for name, kind in ((slow, "latency"), (old, "bandwidth")):
        assert evidence(name)["standing"] == "valid"
        assert evidence(name)[kind]["taken_at"] > timestamp.now(-3600)
    again = deploy("b200.py", *DATA)
    assert [again.host(name)["changes"] for name in NODES] == [0] * len(NODES)
    assert [again.host(name)["commands"] for name in NODES] == [2] * len(NODES)
