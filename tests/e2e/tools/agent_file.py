"""What the agent of a lab's node knows, as its file has it, and looks at once."""

from __future__ import annotations

import json
from typing import Any

import tests.lab as lab
from b200kit.node.lib.documents import structure
from b200kit.node.state import agent
from b200kit.node.state.agent import AgentState
from b200kit.node.state.proof import NodeProof, ProofValidity
from tests.e2e.driving import on

FILE, UNIT = agent.PATH, agent.UNIT
PROGRAM = "/usr/local/lib/b200kit/node.pyz"


def known(name: str) -> AgentState:
    """All of it."""
    found: dict[str, Any] = json.loads(on(name, f"cat {FILE}"))
    return structure(AgentState, found)


def proof(name: str) -> NodeProof:
    """The proof that lies there."""
    found = known(name).proof
    assert found is not None
    return found


def worth(name: str) -> ProofValidity:
    """What that is worth now."""
    boot_id, boot_s = on(name, "cat /proc/sys/kernel/random/boot_id /proc/uptime").split()[:2]
    return proof(name).within(boot_id, float(boot_s))


def look(name: str, times: int = 1) -> None:
    """Look now, so often: as a fault is confirmed by."""
    for _ in range(times):
        done = lab.run(name, ["python3", "-I", PROGRAM, "health-check"])
        assert done.returncode == 0, done.stderr


def has_done(name: str, replica: int, what: str) -> str:
    """The shell condition that the agent did something about a replica last."""
    read = f"import json; d = json.load(open('{FILE}')); w = d['watchdog'].get('{replica}') or {{}}"
    test = f"raise SystemExit((w.get('last') or {{}}).get('what') != '{what}')"
    return f'python3 -c "{read}; {test}"'
