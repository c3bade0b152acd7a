"""The replicas under the watchdog: the node is not marked, the watchdog runs, no replica is out.

Judged where the expectation asks for it, which check.py does and the gate does not: a marked node
may go on serving with the replicas that are well, and at boot nothing is watched yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from b200kit.node.checks.findings import failed, noted, passed, rule, within
from b200kit.node.checks.judge import check
from b200kit.node.checks.serving.units import ACTIVE, which_run
from b200kit.node.lib import documents
from b200kit.node.state import advice
from b200kit.node.state import watchdog as watching
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unread
from b200kit.node.state.watch import HealthCheck

NOT_ASKED = "no watchdog is asked for"
_UNMARKED = rule("no mark", "a person looks at a node that restarts do not repair, and removes it")
_WATCHED = rule("active", "a replica that hangs still says that it is healthy (vllm#39863)")
_LOOKED = rule("no fault", "what was proven at the start is checked again while it serves")
_ANSWERS = rule("in the gateway", "every replica that runs answers the watchdog's probe")


@check("watchdog.mark")
def mark(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Nobody marked the node as one that needs manual repair."""
    left = state.at("notes", "watchdog_mark")
    if expect.requested(dict, "watchdog") is None:
        yield passed(NOT_ASKED)
    elif left.is_null():
        yield passed("the node is not marked", _UNMARKED)
    else:
        found = watching.mark_of(left.get(dict))
        yield failed(f"the node is {found}", found.why, _UNMARKED, found.action)


@check("watchdog.service")
def watchdog(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Where a replica runs, the watchdog runs, too."""
    if expect.requested(dict, "watchdog") is None:
        yield passed(NOT_ASKED)
        return
    unit = expect.text("watchdog", "unit")
    running, unknown = _running(expect, state)
    yield from unknown
    if running:
        yield from within(_watches(unit, state, len(running)), part=unit)
    elif not unknown:
        yield passed("no replica runs, so none is watched", _WATCHED)


def _watches(unit: str, state: StateView, count: int) -> Iterator[Finding]:
    active = state.text("units", unit, "active")
    if active not in ACTIVE:
        summary = f"{unit} is {active}: no replica is watched"
        yield failed(summary, active, _WATCHED, Action.RESTART_SERVICE, part=unit)
    else:
        yield passed(f"{unit} watches {count} replicas", _WATCHED)


@check("watchdog.replicas")
def replicas(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Each replica that runs answered its last probe, and none is kept out."""
    if expect.requested(dict, "watchdog") is None:
        yield passed(NOT_ASKED)
        return
    running, unknown = _running(expect, state)
    each = (one for unit in running for one in within(_replica(unit, state), subject=unit))
    found = [*unknown, *each]
    yield from found
    if not any(finding.blocks for finding in found):
        yield passed(f"{len(running)} replicas run, and none is out", _ANSWERS)


@check("watchdog.health")
def looks(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The node was checked of late, and no fault is confirmed there."""
    asked = expect.requested(dict, "watchdog")
    if asked is None or "health_age_max_s" not in asked:
        yield passed(NOT_ASKED)
        return
    most = expect.number("watchdog", "health_age_max_s")
    running, unknown = _running(expect, state)
    if running:
        yield from _looked(state, most)
    else:
        yield from unknown or [passed("no replica runs, so the node is not checked", _LOOKED)]


def _looked(state: StateView, most_s: int) -> Iterator[Finding]:
    """By the clock that nobody sets."""
    left = state.at("notes", "watch")
    uptime = state.get(float, "host", "uptime_s")
    if left.is_null():
        raise Unread("a health check of this boot", "the node was not checked since its boot")
    age = round(uptime - left.get(float, "boot_s"))
    if age > most_s:
        text = f"the last health check is {age} s old: what serves is not watched"
        limit = rule(f"{most_s} s at most", "stale is never healthy")
        yield failed(text, f"{age} s", limit, Action.RESTART_SERVICE, part="b200-agent.service")
    try:
        look = documents.structure(HealthCheck, left.raw())
    except documents.Malformed as error:
        raise Unread("what the last health check found", str(error)) from None
    for fault in look.confirmed:
        found = fault.finding  # with its action and part: what it asks for, as at the gate
        text = f"confirmed while serving since {fault.since}: {found.summary}"
        yield replace(
            found, summary=text, expected=_LOOKED.text, source=_LOOKED.source,
            remedy=advice.of(found),
        )  # fmt: skip
    yield passed(f"the node was checked {age} s ago", _LOOKED)


def _replica(unit: str, state: StateView) -> Iterator[Finding]:
    """What the watchdog remembers of one replica that runs."""
    number = unit.partition("@")[2].partition(".")[0]
    page = state.at("notes", "watchdog", number)
    out, what = page.flag("out"), page.text("last", "what")
    detail = page.known(str, "last", "detail")
    text = f"{what}: {detail}" if detail else what
    if out:
        why = page.known(str, "why") or text
        summary = f"{unit} was taken out of the gateway by the watchdog: {why}"
        act = Action.RESTART_SERVICE
        yield failed(summary, text, _ANSWERS, act, part=unit, subject=unit)
    elif what == watching.ProbeOutcome.REFUSED.value:
        raise Unread("whether it answers", f"the probe itself is refused: {detail or ''}")
    elif what in (watching.ProbeOutcome.NO_ANSWER.value, watching.ProbeOutcome.STALLED.value):
        summary = f"{unit} missed a probe: {text}"
        yield replace(noted(summary, None, text, _ANSWERS, part=unit), subject=unit)
    elif what == watching.ProbeOutcome.IN_DOUBT.value:
        summary = f"{unit} answered a golden prompt otherwise: {text}"
        yield replace(noted(summary, None, text, _ANSWERS, part=unit), subject=unit)


def _running(expect: Expectation, state: StateView) -> tuple[list[str], list[Finding]]:
    """The replicas that run, and a finding for each of which that is not known."""
    return which_run(map(str, expect.get(list, "watchdog", "replicas")), state)
