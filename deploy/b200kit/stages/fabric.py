"""Fabric: the NVLink bring-up, state by state (node/fabric/sequence.py), until it is done or stuck.

The stage never judges. A node that stays in a state longer than it may is reported with what was
seen and what to do about it; then the gate refuses it by the same finding. Only such stages as
can do something without the fabric still work on it.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from typing import Any

from b200kit.converge.stage import Change, DesiredState, Stage, converge
from b200kit.node.fabric import sequence, states
from b200kit.node.lib import documents, timestamp
from b200kit.node.placement.layout import Replica
from b200kit.node.state.drift import NodeUnit
from b200kit.node.state.mend import MANAGER
from b200kit.node.state.view import StateView
from b200kit.run.node import Node, duration
from b200kit.run.remote import RemoteError, program_step
from b200kit.stages import gate, serving_units
from b200kit.stages.support.driver_set import stack

DAEMONS_LOG = "/var/log/b200kit-gpu-daemons.log"
_SLICE_S = 5.0
# One look may wait for NVML to time out, and is made before and after the slice.
_LOOKS_S = 60
_SAY_EVERY_S = 10.0
_ANSWER = ("state", "moved", "progress", "line", "hidden", "done")


def desired(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """The daemons of this hardware, running."""
    del layout
    return DesiredState(units=tuple(NodeUnit(name) for name in stack(node).units))


def plan(node: Node) -> list[Change]:
    """Enable what is not enabled; go through the sequence unless all of it is reached already."""
    node.fabric_error = None
    enabled = tuple(NodeUnit(name, active=False) for name in stack(node).units)
    changes = converge(node, DesiredState(units=enabled))
    at = sequence.position(_expectation(node), node.state or {})
    if MANAGER in stack(node).units and states.outlived(StateView(node.state or {})):
        changes += _renewing(node)
    if changes or at.state:
        changes.append(Change("bring the fabric up", _bring_up))
    elif node.record.changes:  # it came up by itself after what this run did
        node.say("fabric", sequence.progress(at, node.state or {}))
    return changes


def _renewing(node: Node) -> list[Change]:
    """The manager that GPUs outlived starts again: nothing serves by then, and they are reset."""
    serving = serving_units.running(node, serving_units.units(node))
    stop = Change(
        f"stop {', '.join(serving)}; started again by the later stages",
        lambda node: serving_units.stop(node, serving),
        ends=tuple(serving),
    )
    return [*([stop] if serving else []), Change(f"reset the GPUs and start {MANAGER}", _renew)]


def _renew(node: Node) -> str:
    remote, limit_s = node.connected(), node.spec.reprovision.deadlines.reset_gpus
    # One that ended is renewed once, however often a run asks.
    ended = StateView(node.record.state or {}).text("units", MANAGER, "invocation_id")
    words = f"gpu-daemons reset --act {shlex.quote(f'after-{ended}')} --deadline {limit_s}"
    return remote.run_logged(program_step(words), DAEMONS_LOG, limit_s=limit_s + 60).strip()


def _expectation(node: Node) -> dict[str, Any]:
    return {**gate.expectation(node), "today": timestamp.today()}


class _FabricWalk:
    """The clock of one bring-up: how long it has taken, and how long it has been in one state.

    A call that changed nothing counts as the time it was given, even if it took less.
    """

    def __init__(self, deadline_s: float) -> None:
        self.deadline_s = deadline_s
        self.elapsed_s = self.in_state_s = 0.0
        self.at = ""
        self.done: list[list[str]] = []
        self.message = ("", 0.0)

    def take(self, answer: dict[str, Any], given_s: float, took_s: float) -> None:
        """Take in an answer; a state the node has just come to begins its own time."""
        spent_s = took_s if answer["moved"] else max(given_s, took_s)
        before_s = self.in_state_s if answer["state"] == self.at else 0.0
        self.in_state_s = 0.0 if answer["moved"] else before_s + spent_s
        self.elapsed_s += spent_s
        self.at, self.done = answer["state"], answer["done"]

    @property
    def left_s(self) -> float:
        """How long the node may stay where it is: its state's share of the deadline, or its end."""
        state = sequence.named(self.at)
        share_s = sequence.patience_s(state, self.deadline_s) if state else self.deadline_s
        return max(0.0, min(share_s - self.in_state_s, self.deadline_s - self.elapsed_s))

    def say(self, node: Node, progress: str) -> None:
        """A line for who waits, when there is news or no line for a while."""
        before, when = self.message
        if progress != before or self.elapsed_s - when >= _SAY_EVERY_S:
            node.say("fabric", f"{progress}, {duration(self.elapsed_s)}")
            self.message = (progress, self.elapsed_s)


def _bring_up(node: Node) -> str:
    """Call the node program in slices until all is reached, a state is stuck, or time is up."""
    walk = _FabricWalk(node.spec.fabric_deadline_s)
    while True:
        given_s, began = min(_SLICE_S, walk.left_s), time.monotonic()
        answer = _slice(node, walk, given_s)
        walk.take(answer, given_s, time.monotonic() - began)
        if walk.at == sequence.DONE:
            return _done(answer)
        if walk.left_s <= 0:
            node.fabric_error = str(answer["line"])
            return node.fabric_error
        walk.say(node, str(answer["progress"]))


def _slice(node: Node, walk: _FabricWalk, seconds: float) -> dict[str, Any]:
    """Where the node stands after some seconds, or as soon as that has changed."""
    request = {"expectation": _expectation(node), "done": walk.done}
    arguments = f"bring-up --slice {seconds:.1f} --deadline {walk.deadline_s}"
    timeout = int(_SLICE_S) + _LOOKS_S
    output = node.connected().program(arguments, stdin=json.dumps(request), timeout=timeout)
    try:
        answer = documents.parse(output, documents.LARGE)
        return {key: answer[key] for key in _ANSWER}
    except (ValueError, TypeError, KeyError):
        raise RemoteError("the answer about the bring-up is not one of its own") from None


def _done(answer: dict[str, Any]) -> str:
    """What came up, what had to be loaded by hand, and what is unknown."""
    loaded = [act[1] for act in answer["done"] if act[0] == "modprobe"]
    by_hand = f"loaded {', '.join(loaded)}, which this boot had not" if loaded else ""
    return ", ".join(part for part in (answer["progress"], by_hand, answer["hidden"]) if part)


STAGE = Stage(name="fabric", desired=desired, plan=plan)
