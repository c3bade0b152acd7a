"""What the agent knows: in one signed file, from which it goes on whatever became of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.agent.memory import EVENTS, AgentMemory
from b200kit.node.lib import documents, signature
from b200kit.node.lib.boot_clock import Moment
from b200kit.node.lib.documents import structure
from b200kit.node.state.agent import AgentState
from b200kit.node.state.event import Event
from b200kit.node.state.mend import MendTries
from b200kit.node.state.proof import KINDS, ProofRules
from b200kit.node.state.serving import ServedReplica
from b200kit.node.state.watch import HealthCheck
from b200kit.node.state.watchdog import ReplicaState
from tests.unit.node.agent.test_evidence import BANDWIDTH, GATE, LOOK, SMOKE, WALL

REPLICAS = [ServedReplica(n, "http://127.0.0.1:1", f"vllm@{n}.service", (f"G{n}",)) for n in (0, 1)]
RULES = ProofRules("n01", dict.fromkeys(KINDS, 1e9), ("health", "gate", "latency", "answers"))


@dataclass
class NodeInFolder:
    """A node on which all is well, and its clocks: 1,000 s after its boot."""

    folder: Path
    boot_id: str = "boot-a"
    boot_s: float = 1000.0
    stepped_s: float = 0.0
    sign: Callable[[bytes], bytes] = field(default=lambda _: b"signed")

    def __post_init__(self) -> None:
        here = {"verdict": GATE, "smoke": SMOKE, "bandwidth": BANDWIDTH, "serving": {}}
        for name, document in here.items():
            self.write(name, document)

    def write(self, name: str, document: object) -> None:
        """Leave a note."""
        new = self.folder / "new"
        new.write_text(json.dumps(document))
        new.replace(self.folder / f"{name}.json")

    def agent(self, rules: ProofRules | None = RULES) -> AgentMemory:
        """One that has just started."""
        made = AgentMemory(
            "n01", REPLICAS, self.folder / "serving.json", rules,
            path=self.folder / "agent" / "agent.json", directory=self.folder,
            clock=lambda: Moment(self.boot_id, self.boot_s),
            wall=lambda: WALL - 1000.0 + self.boot_s + self.stepped_s, sign=lambda d: self.sign(d),
        )  # fmt: skip
        made.recall()
        return made

    def look(self, memory: AgentMemory, **changes: Any) -> None:
        """A look of now, the proof of it, and both on the disk."""
        memory.looked(structure(HealthCheck, {**LOOK, "boot_s": self.boot_s, **changes}))
        memory.prove()
        memory.save()

    @property
    def written(self) -> AgentState:
        """The file."""
        return documents.load(AgentState, self.folder / "agent" / "agent.json")


@pytest.fixture
def node(tmp_path: Path) -> NodeInFolder:
    return NodeInFolder(tmp_path)


def kinds(node: NodeInFolder) -> list[str]:
    """What the site is told."""
    return [event.kind for event in node.written.events]


def standing(node: NodeInFolder) -> str:
    """What the proof that lies there is worth now."""
    proof = node.written.proof
    return proof.within(node.boot_id, node.boot_s).standing if proof else "absent"


def test_file_is_signed_and_ssh_keygen_alone_verifies_it(
    node: NodeInFolder, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    node.sign = partial(signature.sign, key=key)
    node.look(node.agent())
    assert standing(node) == "valid"
    public = (tmp_path / "key.pub").read_text()
    (tmp_path / "signers").write_text(f'n01 namespaces="b200kit-proof" {public}')
    argv = ["ssh-keygen", "-Y", "verify", "-f", str(tmp_path / "signers"), "-I", "n01"]
    argv += ["-n", "b200kit-proof", "-s", str(tmp_path / "agent" / "agent.json.sig")]
    content = (tmp_path / "agent" / "agent.json").read_bytes()
    assert subprocess.run(argv, input=content, check=False).returncode == 0
    assert subprocess.run(argv, input=content + b" ", check=False).returncode != 0


def served(node: NodeInFolder) -> tuple[int, ...]:
    """The replicas that the proof is about."""
    proof = node.written.proof
    return proof.serving.replicas if proof else ()


def test_only_what_runs_in_the_gateway_serves(node: NodeInFolder) -> None:
    memory = node.agent()
    node.look(memory)
    assert served(node) == (0, 1)
    memory.keep(1, ReplicaState(out=True))
    node.look(memory)
    assert served(node) == (0,)


def test_before_the_first_look_nothing_is_proven(node: NodeInFolder) -> None:
    memory = node.agent()
    memory.prove()
    memory.save()
    assert standing(node) == "expired"


def test_a_file_of_a_dead_agent_proves_less_and_less(node: NodeInFolder) -> None:
    rules = ProofRules("n01", {**RULES.ttl_s, "health": 50.0}, RULES.required)
    node.look(node.agent(rules))
    assert standing(node) == "valid"
    node.boot_s += 51.0
    assert standing(node) == "expired"
    assert node.written.look_at(node.boot_id, node.boot_s)
    node.boot_s += 10.0
    assert node.written.look_at(node.boot_id, node.boot_s) is None


def test_another_agent_goes_on_where_one_was(node: NodeInFolder) -> None:
    memory = node.agent()
    memory.mends = MendTries("boot-a", (7.0,))
    memory.keep(1, ReplicaState(out=True, ejections=(5.0,), why="it hung"))
    node.look(memory)
    sequence, events = node.written.proof, node.written.events
    again = node.agent()
    assert (again.standings, again.mends) == (memory.standings, memory.mends)
    assert (again.proof, tuple(again.events), again.look) == (sequence, events, memory.look)
    # Of another boot, the looks are gone, and what is counted by its clock.
    node.boot_id = "boot-b"
    after = node.agent()
    assert (after.look, after.mends) == (None, None)
    assert after.standings == {1: ReplicaState(out=True, why="it hung")}


@pytest.mark.parametrize("damage", ["", "{", '{"schema": "b200kit/agent/9"}', "\0" * 4096])
def test_of_a_damaged_file_nothing_counts_as_in_the_gateway_until_it_answers(
    node: NodeInFolder, damage: str
) -> None:
    node.look(node.agent())
    sequence = node.written.proof.sequence if node.written.proof else 0
    (node.folder / "agent" / "agent.json").write_text(damage)
    node.boot_s += 10.0
    memory = node.agent()
    assert [memory.standings[n].out for n in (0, 1)] == [True, True]
    node.look(memory)
    assert standing(node) == "expired"
    for n in (0, 1):
        memory.keep(n, ReplicaState())
    node.look(memory)
    assert standing(node) == "valid"
    assert node.written.proof
    assert node.written.proof.sequence > sequence


def test_a_full_disk_stops_nothing_and_is_said_once(
    node: NodeInFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = node.agent()
    node.look(memory)
    before = node.written

    def full(_: bytes) -> bytes:
        raise OSError(28, "No space left on device")

    capsys.readouterr()
    node.sign = full
    for _ in range(3):
        memory.keep(0, ReplicaState(strikes=memory.standings.get(0, ReplicaState()).strikes + 1))
    assert (memory.standings[0].strikes, node.written) == (3, before)
    assert capsys.readouterr().err.count("could not be written down") == 1
    node.sign = lambda _: b"signed"
    node.look(memory)
    assert node.written.watchdog["0"].strikes == 3


@pytest.mark.parametrize("stepped_s", [3600.0, -3600.0, 365 * 86_400.0])
def test_a_clock_that_is_stepped_proves_nothing_until_it_is_back(
    node: NodeInFolder, stepped_s: float
) -> None:
    memory = node.agent()
    node.look(memory)
    node.stepped_s = stepped_s
    node.boot_s += 10.0
    node.look(memory)
    assert standing(node) == "expired"
    node.stepped_s = 0.0
    node.look(memory)
    assert standing(node) == "valid"


def test_journal_has_a_line_and_the_site_an_event_when_the_standing_changes(
    node: NodeInFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = node.agent()
    node.look(memory)
    node.look(memory)
    assert capsys.readouterr().err == "proof valid\n"
    node.write("smoke", {**SMOKE, "verdict": "fail", "reasons": []})
    node.look(memory)
    assert capsys.readouterr().err == "proof expired: latency: fail: verdict fail\n"
    # One look proves no fault.
    assert kinds(node) == ["proof.valid"]
    node.look(memory)
    node.look(node.agent())
    assert kinds(node) == ["proof.valid", "proof.expired"]
    node.write("smoke", SMOKE)
    node.look(memory)
    assert kinds(node) == ["proof.valid", "proof.expired", "proof.valid"]


@pytest.mark.parametrize("planned", [{"in_service": False}, {"running": []}])
def test_planned_work_is_no_event_and_what_serves_unproven_after_it_is(
    node: NodeInFolder, planned: dict[str, Any]
) -> None:
    memory = node.agent()
    node.look(memory)
    node.write("smoke", {**SMOKE, "verdict": "fail", "reasons": []})
    for _ in range(3):
        node.look(memory, **planned)
    assert (standing(node), node.written.proof and node.written.proof.serving.gpus) == (
        *("expired", 0),
    )
    node.look(memory)
    assert kinds(node) == ["proof.valid"]
    node.look(memory)
    assert kinds(node) == ["proof.valid", "proof.expired"]


def test_of_a_storm_of_events_the_last_ones_are_kept_and_none_is_counted_twice(
    node: NodeInFolder,
) -> None:
    memory = node.agent()
    for n in range(1000):
        memory.tell(Event("fault.confirmed", f"{n}"))
    assert memory.due
    assert memory.save() == ""
    numbers = [event.number for event in node.written.events]
    assert numbers == [*range(1000 - EVENTS + 1, 1001)]
    node.agent().tell(Event("fault.over", "x"))
    assert len({event.id for event in node.written.events}) == EVENTS


def test_notes_for_the_metrics_are_of_the_last_health(node: NodeInFolder) -> None:
    memory = node.agent()
    node.look(memory)
    assert (node.written.notes.quarantined, node.written.notes.marked) == (False, False)
    assert node.written.notes.verdict_at == GATE["taken_at"]
    assert node.written.notes.record_at == SMOKE["taken_at"]
    node.write("quarantine", {"why": "work"})
    (node.folder / "watchdog-mark.json").write_text("half")
    node.look(memory)
    assert (node.written.notes.quarantined, node.written.notes.marked) == (True, True)


def test_without_rules_nothing_is_issued_or_signed(node: NodeInFolder) -> None:
    node.look(node.agent(None))
    assert node.written.proof is None
    assert not (node.folder / "agent" / "agent.json.sig").exists()
