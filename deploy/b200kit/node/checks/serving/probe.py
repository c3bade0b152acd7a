"""Whether the engine of each replica was started in a sandbox that has what it needs.

The launcher probes the sandbox in each start (b200kit/node/serving/engine_probe/). What it found is
compared with the unit's invocation: a probe of an earlier start says nothing about this one. Judged
where the expectation names the replicas, which check.py does.
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, passed, rule, within
from b200kit.node.checks.judge import check
from b200kit.node.checks.serving.units import ACTIVE, NOT_ASKED, replicas_of
from b200kit.node.state.engine_probe import SCHEMA, ProbeVerdict
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unread, View

_WHOLE = rule("every step passed", "an engine that lacks something hangs or ends, minutes later")
_DONE = (ProbeVerdict.PASSED.value, ProbeVerdict.NOT_APPLICABLE.value)


@check("serving.probe")
def probe(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Each replica that runs found all that its engine needs in its sandbox, in this very start."""
    if expect.requested(dict, "serving") is None:
        yield passed(NOT_ASKED)
        return
    names = replicas_of(expect)
    found = [one for name in names for one in within(_judged(name, state), subject=name)]
    yield from found or [passed("no replica runs in a sandbox that lacks something", _WHOLE)]


def _judged(name: str, state: StateView) -> Iterator[Finding]:
    """Findings of one unit. One that neither runs nor failed has no start to judge."""
    unit = state.at("units", name)
    active = unit.text("active")
    if active not in (*ACTIVE, "failed"):
        return
    page = state.at("engine_probes", name.partition("@")[2].partition(".")[0])
    running, own = unit.known(str, "invocation_id"), page.known(str, "invocation")
    if own and running and own != running and active == "failed":
        return  # why it failed, no probe says: `serving.running` does
    for step in _steps(page, unit.text("invocation_id")):
        yield from within(_step(name, step), subject=name)


def _steps(page: View, running: str) -> list[View]:
    """The steps of a document; raises Unread where it is not of the start that the unit is in."""
    schema, own = page.text("schema"), page.text("invocation")
    if schema != SCHEMA:
        raise Unread(page.path, f"its probe has schema {schema!r}, not {SCHEMA}")
    if own != running:
        why = f"its probe is of invocation {own}, and it runs as {running or 'none'}"
        raise Unread(page.path, why)
    steps = page.items("steps")
    if not steps:
        raise Unread(page.path, "the probe has no steps")
    return steps


def _step(name: str, step: View) -> Iterator[Finding]:
    """A finding of a step that did not pass."""
    what, result = step.text("name"), step.text("result")
    if result == ProbeVerdict.FAILED.value:
        seen, remedy = step.known(str, "seen") or "it does not say what", step.known(str, "remedy")
        summary = f"{name} cannot start its engine: {what}: {seen}"
        yield failed(
            summary, seen, _WHOLE, Action.RESTART_SERVICE, part=name, subject=name,
            remedy=remedy or "",
        )  # fmt: skip
    elif result not in _DONE:
        raise Unread(f"{what} of the sandbox", f"it was {result}")
