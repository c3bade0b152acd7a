"""Bring the NVLink fabric up: look, help where the sequence says so, wait; print one JSON line.

The sequence is b200kit/node/fabric/sequence.py. The program gives control back when the node's
state changed, when nothing can be waited for, or when its slice of time is over: whoever called
reports progress and calls again. Units are started by systemctl, never by the vendor's start
script, and the fabric manager only in its state, when modules and driver are there.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from b200kit.node.fabric import sequence
from b200kit.node.fabric.sequence import Position
from b200kit.node.fabric.states import PERSISTENCE, Act
from b200kit.node.facts.nvml.client import Worker
from b200kit.node.facts.observe import guarded, parts
from b200kit.node.lib import documents, timestamp
from b200kit.node.lib.error_line import unit_cause
from b200kit.node.lib.program import claim_stdout, emit
from b200kit.node.lib.readings import command
from b200kit.node.state.mend import MANAGER
from b200kit.node.state.plausible import plausible
from b200kit.node.state.view import SCHEMA, StateView

PAUSE_S = 2.0
NVML_TIMEOUT_S = 20.0
"""As long as an observation gives it: eight GPUs that nothing has initialized yet are slow."""
LOOKED_AT = ("host", "pci", "modules", "fabric_manager", "packages", "units", "kernel")
"""Parts of a NodeState that the sequence needs besides NVML's."""
NVML_ALONE = ("links", "registration", "peers")
"""States in which only what NVML says can change for the better."""
JOURNAL = {
    "persistence daemon": PERSISTENCE,
    "fabric manager": MANAGER,
    "subnet manager": MANAGER,
    "registration": MANAGER,
}
"""State to the unit whose journal may say why a node stays in it."""
Json = dict[str, Any]


def observe(expectation: Any) -> Json:
    """The parts of a NodeState that the sequence needs, read side by side."""
    worker = Worker(NVML_TIMEOUT_S)
    readers = parts(sequence.requested(expectation))
    with ThreadPoolExecutor(max_workers=8) as pool:
        futures = {key: pool.submit(guarded, readers[key]) for key in LOOKED_AT}
        document: Json = {key: future.result() for key, future in futures.items()}
    return {"schema": SCHEMA, **document, **worker.result()}


def observe_again(expectation: Any, before: Json, at: Position) -> Json:
    """A new observation of no more than can have changed."""
    if at.name in NVML_ALONE:
        return {**before, **Worker(NVML_TIMEOUT_S).result()}
    return observe(expectation)


def help_along(todo: Collection[Act]) -> list[str]:
    """Do each action; the error of each that failed."""
    errors = []
    for act in todo:
        try:
            command(list(act))
        except OSError as error:
            errors.append(str(error))
    return errors


def evidence(at: Position, document: Json) -> list[str]:
    """What the journal of the unit says that a state is about."""
    unit = JOURNAL.get(at.name)
    if unit is None or StateView(document).reading("units", unit, "load") != "loaded":
        return []
    try:
        output = command(["journalctl", "-u", unit, "-b", "-n", "400", "-o", "cat", "--no-pager"])
    except OSError:
        return []
    cause = unit_cause(output.splitlines())
    return [] if cause == "nothing" else [f"{unit} says: {cause}"]


class BringUp:
    """One walk: the observations of the node, what was done and what failed."""

    def __init__(self, expectation: Any, done: Collection[Act] = ()) -> None:
        today = {"today": timestamp.today()}
        self.expectation = {**expectation, **today} if isinstance(expectation, dict) else {}
        self.done = list(done)
        self.errors: list[str] = []
        self.document = observe(self.expectation)

    @property
    def position(self) -> Position:
        """Where the node stands by the last observation."""
        return sequence.position(self.expectation, plausible(self.document))

    def step(self, at: Position, helps: bool) -> bool:
        """Do what helps and was not done yet; whether there was anything."""
        acts = sequence.acts(at, self.expectation, self.document) if helps else []
        todo = [act for act in acts if act not in self.done]
        self.errors += help_along(todo)
        self.done += todo
        return bool(todo)

    def stay(self, at: Position, seconds: float, helps: bool) -> Position:
        """Help and wait until the node is in another state, at most for some seconds."""
        end = time.monotonic() + seconds
        acted = self.step(at, helps)
        now = at
        while now.state is not None and now.name == at.name:
            left = end - time.monotonic()
            if left <= 0 and not acted:
                break
            # One observation after an action, however short the time is: its effect must be known.
            time.sleep(max(0.0, min(PAUSE_S, left)))
            acted = False
            self.document = observe_again(self.expectation, self.document, at)
            now = self.position
        return now

    def document_of(self, at: Position, moved: bool) -> Json:
        """The answer for the controller; *moved*: the node came to this state in this call."""
        why = [*self.errors, *evidence(at, self.document)] if at.state else []
        document = sequence.describe(at, self.expectation, self.document, why)
        return {**document, "moved": moved, "done": [list(act) for act in self.done]}


def wait(expectation: Any, deadline_s: float) -> Position:
    """Watch, without helping, until all is reached or some state lasts longer than it may."""
    walk, end = BringUp(expectation), time.monotonic() + deadline_s
    now = walk.position
    while now.state is not None and time.monotonic() < end:
        left = end - time.monotonic()
        after = walk.stay(now, min(left, sequence.patience_s(now.state, deadline_s)), helps=False)
        if after.name == now.name:
            break
        now = after
    return now


def main(args: list[str]) -> int:
    """Go on from where the node is; 0 with one line of JSON, 2 for a request that is none.

    On stdin {"expectation": {...}, "done": [["modprobe", "ib_umad"]]}: by what it is judged, and
    what earlier calls of the same run did already.
    """
    parser = argparse.ArgumentParser(prog="bring-up")
    parser.add_argument("--slice", type=float, default=5.0, help="seconds in one state, 5")
    parser.add_argument("--deadline", type=float, default=180.0, help="seconds for all of it, 180")
    options = parser.parse_args(args)
    out = claim_stdout()
    request = documents.request()
    try:
        walk = BringUp(request["expectation"], [tuple(act) for act in request.get("done", [])])
    except (ValueError, TypeError, KeyError) as error:
        print(f"bring-up: the request cannot be used: {error}", file=sys.stderr)
        return 2
    first = now = walk.position
    if first.state is not None:
        patience = sequence.patience_s(first.state, options.deadline)
        now = walk.stay(first, min(options.slice, patience), helps=True)
    emit(out, walk.document_of(now, moved=now.name != first.name))
    return 0
