"""The controller dead at every point of every step: the next run ends as if nothing had been.

Before and after each line of the transaction and of the log of acts reaches the disk, and before
and after each act has its effect, what is on the disk is kept; a run begins from each of these. One
test kills real processes with SIGKILL again and again. The world the acts work on is a file that
outlives them, in which each counts what it did.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from b200kit.inventory.keys.levels import Level
from b200kit.node.state.verdict import Action, Finding, Status
from b200kit.reprovision import escalation, states
from b200kit.reprovision.actions import ActionFailed, ActionRefused, Say
from b200kit.reprovision.escalation import Decision, EscalationLimits
from b200kit.reprovision.ledger import Ledger, NodeHeld, Transactions
from b200kit.reprovision.ledger_line import DoneLine, IntentLine, LedgerLine, ReleaseLine
from b200kit.reprovision.state_machine import NotFit, StateMachine, StepHandler, Stopped
from b200kit.reprovision.states import RepairState
from b200kit.reprovision.transaction import Transaction
from b200kit.run.node import HostRecord, Node, StageFailed
from b200kit.store.database import Store
from tests.messages import TIME, raises_message
from tests.subtests import in_subtests

FAULT = Finding("no driver", Status.FAIL, action=Action.REBOOT, part="GPU 4", check="driver.loaded")
BUDGET: dict[Level, int] = dict.fromkeys(
    (level for level in Level if level is not Level.REPLACE), 1
)
NEVER: dict[Level, int] = dict.fromkeys(BUDGET, 0)
Kill = Callable[[str], None]


class World:
    """What the acts have done, on the disk; *cure* is the level that helps."""

    def __init__(self, folder: Path, cure: Level | None) -> None:
        self.path, self.cure = folder / "world.json", cure

    def read(self) -> dict[str, Any]:
        """{"boot", "fit", "counts"}."""
        if not self.path.exists():
            return {"boot": 1, "fit": False, "counts": {}}
        found: dict[str, Any] = json.loads(self.path.read_text())
        return found

    def did(self, what: str, **changes: Any) -> None:
        """One more of *what*."""
        now = self.read()
        now["counts"][what] = now["counts"].get(what, 0) + 1
        self.path.with_suffix(".new").write_text(json.dumps(now | changes))
        self.path.with_suffix(".new").rename(self.path)

    def levels(self) -> dict[str, int]:
        """How often each level was done."""
        words = {level.word for level in Level}
        return {k: count for k, count in self.read()["counts"].items() if k in words}


@dataclass
class Fake:
    """A step on the world; levels are known by the boot they end."""

    world: World
    name: str
    tx: Transaction
    kill: Kill

    def facts(self, node: Node) -> dict[str, Any]:
        """The boot that is about to end."""
        return {"boot_id": str(self.world.read()["boot"])}

    def probe(self, node: Node, intent: IntentLine) -> str | None:
        """Another boot than the intent's: the level was done."""
        if self.name != "action" or intent.boot_id == str(self.world.read()["boot"]):
            return None
        return "already done: another boot"

    def perform(self, node: Node, intent: IntentLine, say: Say) -> DoneLine:
        """The effect, between two places to die at."""
        self.kill(f"before {self.name}")
        try:
            return DoneLine(result=self._perform(intent))
        finally:
            self.kill(f"after {self.name}")

    def _perform(self, intent: IntentLine) -> str:
        world, now = self.world, self.world.read()
        if self.name == "action":
            level = intent.decision.level if intent.decision else None
            assert level is not None
            world.did(level.word, boot=now["boot"] + 1, fit=level is world.cure or now["fit"])
            return "a new boot"
        world.did(self.name)
        if self.name == "prove" and not now["fit"]:
            raise NotFit("still no driver", (FAULT,))
        return self.name


class Killer:
    """Counts the places to die at, and dies at one of them."""

    def __init__(self, at: int = -1) -> None:
        self.at, self.places = at, []  # type: ignore[var-annotated]

    def __call__(self, place: str) -> None:
        """One place."""
        if len(self.places) == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.places.append(place)


def decide(tx: Transaction, budget: Mapping[Level, int] = BUDGET) -> Decision:
    """By the ladder, each level once."""
    return escalation.choose(
        tx.findings, tx.attempts, EscalationLimits(budget, 86_400), time.time()
    )


def owner_in(folder: Path, who: str, run: str) -> Ledger:
    """Who may own n1, by the store of a folder."""
    return Ledger(Transactions(Store(folder / "b200.db")), "n1", who, run)


def run(
    folder: Path,
    cure: Level | None,
    kill: Kill,
    budget: Mapping[Level, int] = BUDGET,
    record: HostRecord | None = None,
) -> Transaction:
    """One run of the controller over the node, as b200kit/reprovision/run.py does it."""
    world = World(folder, cure)
    ledger = owner_in(folder, "alice@ctl pid 1", "run")
    tx = ledger.claim()
    if not tx.is_open and not world.read()["fit"]:
        ledger.begin([FAULT], "driver.loaded", "")

    def handler_for(name: str, tx: Transaction) -> StepHandler:
        return Fake(world, name, tx, kill)

    node = Node("n1", None, {})  # type: ignore[arg-type]
    node.record = record or node.record
    try:
        return StateMachine(node, ledger, handler_for, lambda tx: decide(tx, budget)).run()
    finally:
        ledger.release()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[[Kill], None]:
    """Makes every line four places to die at: around it, and in its transaction of the store."""
    append, add = Ledger.append, Transactions.add
    monkeypatch.setattr(os, "fsync", lambda handle: None)

    def watch(kill: Kill) -> None:
        def appended(ledger: Ledger, line: LedgerLine) -> Transaction:
            kill("before a line")
            tx = append(ledger, line)
            kill("after a line")
            return tx

        def added(transactions: Transactions, line: LedgerLine) -> Transaction:
            kill("before it is written")
            tx = add(transactions, line)
            kill("before it is committed")
            return tx

        monkeypatch.setattr(Ledger, "append", appended)
        monkeypatch.setattr(Transactions, "add", added)

    return watch


def killed(act: Callable[[], object]) -> bool:
    """Run *act* in a process of its own; whether it was killed."""
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


class Snapshots:
    """At every place to die at, what a kill would leave on the disk; each content once."""

    def __init__(self, folder: Path, keep: Path) -> None:
        self.folder, self.keep = folder, keep
        self.places: dict[bytes, tuple[str, Path]] = {}
        self.names: set[str] = set()

    def __call__(self, place: str) -> None:
        """One place."""
        self.names.add(place)
        files = sorted(path for path in self.folder.rglob("*") if path.is_file())
        content = b"".join(path.name.encode() + path.read_bytes() for path in files)
        if content not in self.places:
            copy = self.keep / str(len(self.places))
            shutil.copytree(self.folder, copy)
            self.places[content] = (place, copy)


# What cures the node, the levels that are allowed, and how it ends.
ENDINGS = [
    (Level.POWER_CYCLE, BUDGET, RepairState.SERVING, {"reboot": 1, "power-cycle": 1}),
    (None, {**NEVER, Level.REBOOT: 1}, RepairState.MANUAL, {"reboot": 1}),
]


@pytest.mark.parametrize(("cure", "budget", "state", "levels"), ENDINGS)
def test_dead_at_any_place_the_rerun_ends_the_same_and_repeats_no_rung(
    cure: Level | None,
    budget: dict[Level, int],
    state: RepairState,
    levels: dict[str, int],
    tmp_path: Path,
    watched: Callable[[Kill], None],
) -> None:
    (tmp_path / "run").mkdir()
    snapshots = Snapshots(tmp_path / "run", tmp_path / "kept")
    watched(snapshots)
    whole = run(tmp_path / "run", cure, snapshots, budget)
    assert whole.state is state
    taken = {entry.action.partition(":")[0] for entry in whole.steps}
    assert snapshots.names >= {f"{when} {step}" for when in ("before", "after") for step in taken}
    assert len(snapshots.places) > 40
    watched(Killer())
    for place, copy in snapshots.places.values():
        tx = run(copy, cure, Killer(), budget)
        assert (tx.state, World(copy, cure).levels()) == (state, levels), f"dead {place}"
        assert tx.parts == (() if state is RepairState.SERVING else ("GPU 4",))
        assert Store(copy / "b200.db").faults() == [], place


def test_killed_again_and_again_it_ends_all_the_same(
    tmp_path: Path, watched: Callable[[Kill], None]
) -> None:
    deaths = 0
    while True:
        # A real SIGKILL, nine places further each time.
        killer = Killer(9)
        watched(killer)
        if not killed(lambda k=killer: run(tmp_path, Level.POWER_CYCLE, k)):  # type: ignore[misc]
            break
        deaths += 1
        assert deaths < 100
    assert deaths > 5
    assert World(tmp_path, Level.POWER_CYCLE).levels() == {"reboot": 1, "power-cycle": 1}


def test_record_of_an_interrupted_run_says_that_the_node_is_out(tmp_path: Path) -> None:
    def interrupt(place: str) -> None:
        if place == "before drain":
            raise KeyboardInterrupt

    record = HostRecord()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, Level.REBOOT, interrupt, record=record)
    assert record.reprovision
    assert record.reprovision.state is RepairState.QUARANTINED


def test_level_that_nobody_configured_stops_the_run_which_goes_on_once_somebody_has(
    tmp_path: Path,
) -> None:
    without = {**BUDGET, Level.POWER_CYCLE: 0}
    for _ in range(2):
        with raises_message(Stopped):
            run(tmp_path, Level.POWER_CYCLE, Killer(), without)
    assert World(tmp_path, None).levels() == {"reboot": 1}
    assert run(tmp_path, Level.POWER_CYCLE, Killer()).state is RepairState.SERVING
    assert World(tmp_path, None).levels() == {"reboot": 1, "power-cycle": 1}


@in_subtests("step", states.TABLE, ids=lambda step: f"{step.start.value}-{step.name}")
def test_every_step_of_the_table_leads_from_a_state_to_states_that_there_are(
    step: states.Transition,
) -> None:
    names = {entry.start for entry in states.TABLE}
    assert {step.end, step.back} <= names
    assert states.step(step.start, step.name) is step


def test_every_state_can_come_back_to_serving() -> None:
    reach = {RepairState.SERVING}
    for _ in RepairState:
        reach |= {entry.start for entry in states.TABLE if entry.end in reach}
    assert reach == set(RepairState)


class Steps:
    """Fakes of which some steps raise something, once or always."""

    def __init__(self, tmp_path: Path, raising: Mapping[str, Exception]) -> None:
        self.world, self.raising = World(tmp_path, Level.REBOOT), dict(raising)
        self.ledger = owner_in(tmp_path, "alice@ctl pid 1", "run")
        self.ledger.claim()
        self.ledger.begin([FAULT], "driver.loaded", "")

    def machine(self, releasing: bool = False) -> StateMachine:
        """A machine over them."""
        node = Node("n1", None, {})  # type: ignore[arg-type]
        return StateMachine(node, self.ledger, self._handler, decide, releasing)

    def _handler(self, name: str, tx: Transaction) -> StepHandler:
        title = tx.pending.title if tx.pending else name
        fake, error = Fake(self.world, name, tx, Killer()), self.raising.get(title)
        if error is None:
            return fake

        class Raising(Fake):
            def perform(self, node: Node, intent: IntentLine, say: Say) -> DoneLine:
                """Nothing is done."""
                assert error is not None
                raise error

        return Raising(self.world, name, tx, Killer())


def test_level_that_fails_is_followed_by_the_next_one(tmp_path: Path) -> None:
    steps = Steps(tmp_path, {"reboot": ActionFailed("did not come back")})
    steps.world.cure = Level.POWER_CYCLE
    tx = steps.machine().run()
    assert tx.state is RepairState.SERVING
    assert [(t.level, t.outcome) for t in tx.attempts] == [
        (Level.REBOOT, "failed"),
        (Level.POWER_CYCLE, "cured"),
    ]


def test_level_that_is_refused_is_no_reason_for_a_higher_one(tmp_path: Path) -> None:
    steps = Steps(tmp_path, {"reboot": ActionRefused("the BMC says 401")})
    with pytest.raises(Stopped, match=r"^reboot: the BMC says 401$"):
        steps.machine().run()
    steps.raising.clear()
    tx = steps.machine().run()
    assert (tx.state, steps.world.levels()) == (RepairState.SERVING, {"reboot": 1})
    assert [t.level for t in tx.attempts] == [Level.REBOOT]


def test_drain_that_does_not_end_stops_the_run_with_the_node_out(tmp_path: Path) -> None:
    steps = Steps(tmp_path, {"drain": ActionFailed("3 open after 2 m 00 s")})
    with pytest.raises(Stopped, match="drain: 3 open"):
        steps.machine().run()
    assert steps.ledger.read().state is RepairState.QUARANTINED
    assert steps.world.levels() == {}


def test_evidence_that_cannot_be_had_keeps_every_level_from_the_node(tmp_path: Path) -> None:
    steps = Steps(tmp_path, {"evidence": ActionFailed("the disk is full")})
    with pytest.raises(Stopped):
        steps.machine().run()
    assert (steps.ledger.read().state, steps.world.levels()) == (RepairState.DRAINED, {})


def test_node_that_fails_among_its_users_is_taken_from_them_again(tmp_path: Path) -> None:
    steps = Steps(tmp_path, {"return": NotFit("a replica died", (FAULT,))})
    tx = steps.machine().run()
    assert tx.state is RepairState.MANUAL
    assert steps.world.read()["counts"]["quarantine"] == 4


def test_operator_returns_the_node_without_another_action(tmp_path: Path) -> None:
    steps = Steps(tmp_path, {})
    steps.world.cure = None
    assert steps.machine().run().state is RepairState.MANUAL
    before = steps.world.levels()
    assert steps.machine().run().state is RepairState.MANUAL
    with raises_message(Stopped):
        steps.machine(releasing=True).run()
    assert steps.machine().run().state is RepairState.MANUAL
    steps.world.did("operator", fit=True)
    assert steps.machine(releasing=True).run().state is RepairState.SERVING
    assert steps.world.levels() == before


def test_person_may_end_a_transaction_that_was_begun_before_any_act(tmp_path: Path) -> None:
    steps = Steps(tmp_path, {"drain": ActionFailed("3 open")})
    with pytest.raises(Stopped):
        steps.machine().run()
    steps.world.did("operator", fit=True)
    assert steps.machine(releasing=True).run().state is RepairState.SERVING
    assert steps.world.levels() == {}


def test_second_operator_reads_who_holds_the_node_since_when(tmp_path: Path) -> None:
    alice = owner_in(tmp_path, "alice@one pid 1", "a")
    alice.claim()
    bob = owner_in(tmp_path, "bob@two pid 2", "b")
    with raises_message(NodeHeld, TIME=TIME):
        bob.claim()
    with raises_message(StageFailed):
        bob.append(ReleaseLine())
    alice.release()
    owner = bob.claim().owner
    assert owner is not None
    assert owner.who == "bob@two pid 2"


def test_claim_ends_with_its_process_and_no_sooner(tmp_path: Path) -> None:
    pipe = os.pipe()
    child = os.fork()
    if child == 0:
        alice = owner_in(tmp_path, "alice@one pid 1", "a")
        alice.claim()
        os.write(pipe[1], b"!")
        signal.pause()
    try:
        os.read(pipe[0], 1)
        bob = owner_in(tmp_path, "bob@two pid 2", "b")
        with pytest.raises(NodeHeld, match="alice@one pid 1"):
            bob.claim()
        assert bob.transactions.is_held("n1")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert not bob.transactions.is_held("n1")
    owner = bob.claim().owner
    assert owner is not None
    assert owner.who == "bob@two pid 2"
