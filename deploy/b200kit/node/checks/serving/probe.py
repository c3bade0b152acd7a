"""Whether the engine of each replica was started in a sandbox that has what it needs.

The launcher probes the sandbox in each start (b200kit/node/serving/engine_probe/). What it found is
compared with the unit's invocation: a probe of an earlier start says nothing about this one. Judged
where the expectation names the replicas, which check.py does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from b200kit.node.checks.findings import failed, passed, rule, unread
from b200kit.node.checks.judge import check
from b200kit.node.state.engine_probe import SCHEMA, Result
from b200kit.node.state.expectation import Expectation, Unexpected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unmeasured, View

NOT_ASKED = "nothing that serves is asked for"
_RUNS = ("active", "reloading")
_WHOLE = rule("every step passed", "an engine that lacks something hangs or ends, minutes later")
_DONE = (Result.PASSED.value, Result.NOT_APPLICABLE.value)


@check("serving.probe")
def probe(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Each replica that runs found all that its engine needs in its sandbox, in this very start."""
    if expect.requested("serving", dict) is None:
        yield passed(NOT_ASKED)
        return
    names = expect.get(list, "serving", "replicas")
    if not names or not all(isinstance(name, str) for name in names):
        raise Unexpected("serving: it must name the replicas")
    found = [replace(one, subject=name) for name in names for one in _judged(name, state)]
    yield from found or [passed("no replica runs in a sandbox that lacks something", _WHOLE)]


def _judged(name: str, state: StateView) -> Iterator[Finding]:
    """Findings of one unit. One that neither runs nor failed has no start to judge."""
    active = state.text("units", name, "active")
    if isinstance(active, Unmeasured):
        yield unread(f"whether {name} runs", active)
        return
    if active not in (*_RUNS, "failed"):
        return
    running = state.text("units", name, "invocation_id")
    page = state.at("engine_probes", name.partition("@")[2].partition(".")[0])
    own = page.text("invocation")
    if own and running and own != running and active == "failed":
        return  # why it failed, no probe says: `serving.running` does
    steps = _steps(page, running)
    if isinstance(steps, Unmeasured):
        yield unread(f"what {name} found of its sandbox", steps)
        return
    for step in steps:
        yield from _step(name, step)


def _steps(page: View, running: str | Unmeasured) -> list[View] | Unmeasured:
    """The steps of a document that is of the start that the unit is in."""
    why = _foreign(page, running)
    if why is not None:
        return why
    steps = page.items("steps")
    if isinstance(steps, Unmeasured):
        return steps
    return steps or Unmeasured("the probe has no steps")


def _foreign(page: View, running: str | Unmeasured) -> Unmeasured | None:
    """Why a document is not of the start that the unit is in; None where it is."""
    schema, own = page.text("schema"), page.text("invocation")
    for reading in (running, schema, own):
        if isinstance(reading, Unmeasured):
            return reading
    if schema != SCHEMA:
        return Unmeasured(f"its probe has schema {schema!r}, not {SCHEMA}")
    if own != running:
        return Unmeasured(f"its probe is of invocation {own}, and it runs as {running or 'none'}")
    return None


def _step(name: str, step: View) -> Iterator[Finding]:
    """A finding of a step that did not pass."""
    what, result = step.text("name"), step.text("result")
    for reading in (what, result):
        if isinstance(reading, Unmeasured):
            yield unread(f"a step of the probe of {name}", reading)
            return
    if result == Result.FAILED.value:
        seen, remedy = step.text("seen") or "it does not say what", step.text("remedy") or ""
        summary = f"{name} cannot start its engine: {what}: {seen}"
        yield failed(summary, seen, _WHOLE, Action.RESTART_SERVICE, part=name, remedy=str(remedy))
    elif result not in _DONE:
        yield unread(f"{what} of the sandbox of {name}", Unmeasured(f"it was {result}"))
