"""GPUs moved under a node's replicas, to find which of them makes answers wrong.

Every round is a layout of its own, made by the stages of a deploy with the gateway and the watchdog
stopped; the stages that follow in deploy/find_gpu.py put the ordinary layout back. Killed at any
moment, the next deploy/b200.py does: it finds other GPUs than it asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from b200kit.converge.stage import Change, Stage, nothing
from b200kit.node.client.correctness import CorrectnessResult
from b200kit.node.client.golden.reference import PATH, Reference
from b200kit.node.lib import documents
from b200kit.operations import observe
from b200kit.run import remote
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import RemoteError
from b200kit.run.session import RUN
from b200kit.serving.gpu_reassignment import SERVER
from b200kit.stages import gate, golden, serving, warmup, watchdog

_CHECK_S = 600


class WrongGpuSearch:
    """The search on one node of a run; its stages stand in deploy/find_gpu.py."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.rounds: list[RotationRound] = []
        self.error = ""
        self.turn = Stage(name="find-gpu", desired=nothing, plan=self._plan)
        self.clear = Stage(name="put back", desired=nothing, plan=_clear)
        self.verdict = Stage(name="verdict", desired=nothing, plan=self._plan_verdict)

    def _plan(self, node: Node) -> list[Change]:
        layout = node.layout()
        if len(layout) < 2:
            raise StageFailed("one replica has all GPUs: there is none to move to another")
        needed = rounds_needed(len(layout[0].gpus))
        moves = [
            Change(f"move each GPU by {by}, restart, ask" if by else "ask", self._round(by))
            for by in range(needed)
        ]
        return [Change("see that nobody uses the node", _alone, looks=True), *moves]

    def _round(self, by: int) -> Any:
        def act(node: Node) -> None:
            if self.error:
                return
            try:
                self._go(by)
                self.rounds.append(self._asked())
            except (RemoteError, StageFailed) as error:
                # What a round does wrong must not keep the node from being put back.
                self.error = f"moved by {by}: {error}"
            finally:
                node.rotated, node.state = 0, None

        return act

    def _go(self, by: int) -> None:
        """Take the replicas to their GPUs of this round, and nobody else to them."""
        node = self.node
        node.rotated, node.state = by, None
        gate.withdraw(self._observed())
        node.state = None
        for stage in (serving.STAGE, warmup.STAGE):
            for change in stage.plan(self._observed()):
                node.say("find-gpu", change.what)
                change.apply(node)
            node.state = None

    def _asked(self) -> RotationRound:
        """What each replica answers. Raises RemoteError where one cannot be asked."""
        layout = self._observed().layout()
        gpus = {r.replica: tuple(zip(r.gpus, r.uuids, strict=True)) for r in layout}
        faults = {replica: self._fault(replica) for replica in gpus}
        for replica, fault in faults.items():
            held = ", ".join(str(index) for index, _ in gpus[replica])
            self.node.say(
                "find-gpu", f"replica {replica} on GPU {held}: {fault or 'right answers'}"
            )
        return RotationRound(gpus, faults)

    def _fault(self, replica: int) -> str:
        asked = f"correctness-check --config {serving.SERVING} --replica {replica}"
        done = self.node.connected().attempt_program(asked, timeout=_CHECK_S)
        found = remote.measured(CorrectnessResult, done)
        return next(iter(found.problems), "")

    def _observed(self) -> Node:
        if self.node.state is None:
            observe.refresh(self.node, RUN.id)
        return self.node

    def _plan_verdict(self, node: Node) -> list[Change]:
        """The watchdog starts again first; that the node is marked is no better answer."""
        changes = watchdog.STAGE.plan(node)
        marks = [change for change in changes if change.what == watchdog.MARKED]
        first = [change for change in changes if change.what != watchdog.MARKED]
        return [*first, Change("say what the answers followed", self._judge), *marks]

    def _judge(self, node: Node) -> str:
        if self.error:
            raise StageFailed(self.error)
        if found := words(self.rounds):
            raise StageFailed(found)
        return f"right answers in all {len(self.rounds)} rounds"


def _clear(node: Node) -> list[Change]:
    """What serves with moved GPUs ends before the ordinary layout is put back."""
    if not serving.STAGE.plan(node):
        return []
    return [Change("stop what serves: its replicas get their own GPUs back", _withdraw)]


def _withdraw(node: Node) -> None:
    gate.withdraw(node)


def _alone(node: Node) -> None:
    """Raises StageFailed where clients may be served, or nothing tells which answers are right."""
    table = node.connected().program("rotation list", timeout=30)
    for name, status, answering in SERVER.findall(table):
        if answering != "0" or status.startswith(("UP", "no check")):
            raise StageFailed(
                f"{name} is {status} and answers {answering} requests: drain the node first"
                " (docs/gateway.md)"
            )
    kept = node.connected().attempt(f"cat {PATH}", timeout=30)
    try:
        name = documents.decode(Reference, kept.stdout).holds_for
    except ValueError:
        name = ""
    if name != golden.holds_for(node, node.layout()):
        raise StageFailed("no reference holds for what is served: run deploy/smoke.py first")


Gpu = tuple[int, str]
"""Index and UUID."""


@dataclass(frozen=True)
class RotationRound:
    """Which GPUs each replica had, and what was wrong with its answers; nothing where they fit."""

    gpus: Mapping[int, Sequence[Gpu]]
    faults: Mapping[int, str]

    @property
    def wrong(self) -> set[int]:
        """Replicas that answered otherwise."""
        return {replica for replica, fault in self.faults.items() if fault}

    @property
    def suspects(self) -> set[Gpu]:
        """GPUs of replicas that answered otherwise."""
        return {gpu for replica in self.wrong for gpu in self.gpus[replica]}


def rounds_needed(width: int) -> int:
    """Rounds, a GPU further each, until no two GPUs were always together, nor any stayed.

    width: GPUs of a replica.
    """
    return width + 1


def followed(rounds: Sequence[RotationRound]) -> set[Gpu]:
    """GPUs under a replica that answered otherwise in every round."""
    return set.intersection(*(one.suspects for one in rounds)) if rounds else set()


def stayed(rounds: Sequence[RotationRound]) -> set[int]:
    """Replicas that answered otherwise in every round, whichever GPUs they had."""
    return set.intersection(*(one.wrong for one in rounds)) if rounds else set()


def words(rounds: Sequence[RotationRound]) -> str:
    """What the rounds say, on one line; empty where all answers were right."""
    gpus, replicas = followed(rounds), stayed(rounds)
    seen = len(rounds)
    if not any(one.wrong for one in rounds):
        return ""
    if len(gpus) == 1 and not replicas:
        [(index, uuid)] = gpus
        places = ", ".join(f"{_place(one, (index, uuid))}" for one in rounds)
        return f"wrong answers follow GPU {index} ({uuid}): wrong in all {seen} places ({places})"
    if replicas and not gpus:
        names = ", ".join(f"replica {one}" for one in sorted(replicas))
        return (
            f"wrong answers stay with {names} in all {seen} rounds and follow no GPU: look at its"
            " CPUs, memory, files and environment"
        )
    each = "; ".join(
        f"round {number}: {', '.join(f'replica {one}' for one in sorted(found.wrong)) or 'none'}"
        for number, found in enumerate(rounds, 1)
    )
    return f"wrong answers follow neither one GPU nor one replica ({each})"


def _place(found: RotationRound, gpu: Gpu) -> str:
    return next(f"replica {name}" for name, gpus in found.gpus.items() if gpu in gpus)
