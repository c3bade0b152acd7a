"""The replicas under the watchdog: the node is not marked, the watchdog runs, no replica is out.

Judged where the expectation asks for it, which check.py does and the gate does not: a marked node
may go on serving with the replicas that are well, and at boot nothing is watched yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from b200kit.node.checks.findings import failed, noted, passed, rule, unread
from b200kit.node.checks.judge import check
from b200kit.node.state import watch
from b200kit.node.state import watchdog as watching
from b200kit.node.state.expectation import Expectation, Unexpected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import Missing, StateView, Unmeasured, View

NOT_ASKED = "no watchdog is asked for"
_ACTIVE = ("active", "reloading")
_UNMARKED = rule("no mark", "a person looks at a node that restarts do not repair, and removes it")
_WATCHED = rule("active", "a replica that hangs still says that it is healthy (vllm#39863)")
_LOOKED = rule("no fault", "what was proven at the start is looked at again while it serves")
_ANSWERS = rule("in the gateway", "every replica that runs answers the watchdog's probe")


@check("watchdog.mark")
def mark(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Nobody marked the node as one that needs manual repair."""
    if _requested(expect) is None:
        yield passed(NOT_ASKED)
        return
    reading = state.at("notes", "watchdog_mark")
    entry = reading.get(dict)
    if state.is_null("notes", "watchdog_mark"):
        yield passed("the node is not marked", _UNMARKED)
    elif isinstance(entry, Unmeasured):
        yield unread("whether the node is marked", entry)
    else:
        why = str(reading.text("why") or "it does not say why")
        action = Action.parse(reading.text("action"))
        yield failed(f"the node is {watching.describe(entry)}", why, _UNMARKED, action)


@check("watchdog.service")
def watchdog(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Where a replica runs, the watchdog runs, too."""
    requested = _requested(expect)
    if requested is None:
        yield passed(NOT_ASKED)
        return
    running, unknown = _running(requested, state)
    yield from unknown
    unit = str(requested.text("unit"))
    reading = state.text("units", unit, "active")
    if not running:
        if not unknown:
            yield passed("no replica runs, so none is watched", _WATCHED)
    elif isinstance(reading, Unmeasured):
        yield replace(unread(f"the state of {unit}", reading), part=unit)
    elif reading not in _ACTIVE:
        summary = f"{unit} is {reading}: no replica is watched"
        yield failed(summary, reading, _WATCHED, Action.RESTART_SERVICE, part=unit)
    else:
        yield passed(f"{unit} watches {len(running)} replicas", _WATCHED)


@check("watchdog.replicas")
def replicas(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Each replica that runs answered its last probe, and none is kept out."""
    requested = _requested(expect)
    if requested is None:
        yield passed(NOT_ASKED)
        return
    running, unknown = _running(requested, state)
    found = [*unknown, *(one for unit in running for one in _replica(unit, state))]
    yield from found
    if not any(finding.blocks for finding in found):
        yield passed(f"{len(running)} replicas run, and none is out", _ANSWERS)


@check("watchdog.looks")
def looks(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The node was looked at of late, and no fault is confirmed there."""
    requested = _requested(expect)
    if requested is None or isinstance(most := requested.number("look_age_max_s"), Missing):
        yield passed(NOT_ASKED)
        return
    if isinstance(most, Unmeasured):
        raise Unexpected(f"watchdog: look_age_max_s: {most.reason}")
    running, unknown = _running(requested, state)
    if not running:
        yield from unknown or [passed("no replica runs, so the node is not looked at", _LOOKED)]
        return
    yield from _looked(state, most)


def _looked(state: StateView, most_s: int) -> Iterator[Finding]:
    """By the clock that nobody sets."""
    left = state.at("notes", "watch")
    uptime, when = state.get(float, "host", "uptime_s"), left.get(float, "boot_s")
    if isinstance(uptime, Unmeasured):
        yield unread("how long the node is up", uptime)
        return
    if isinstance(when, Unmeasured):
        none = Unmeasured("the node was not looked at since its boot")
        yield unread("a look of this boot", none if left.raw() is None else when)
        return
    age = round(uptime - when)
    if age > most_s:
        text = f"the last look at the node is {age} s old: what serves is not watched"
        limit = rule(f"{most_s} s at most", "stale is never healthy")
        yield failed(text, f"{age} s", limit, Action.RESTART_SERVICE, part="b200-watch.timer")
    try:
        faults = watch.faults_of(left.raw())
    except ValueError as error:
        yield unread("what the last look found", Unmeasured(str(error)))
        return
    for fault in faults:
        if fault.confirmed:
            found = fault.finding  # with its action and part: what it asks for, as at the gate
            text = f"confirmed while serving since {fault.since}: {found.summary}"
            yield replace(found, summary=text, expected=_LOOKED.text, source=_LOOKED.source)
    yield passed(f"the node was looked at {age} s ago", _LOOKED)


def _replica(unit: str, state: StateView) -> Iterator[Finding]:
    """What the watchdog remembers of one replica that runs."""
    number = unit.partition("@")[2].partition(".")[0]
    page = state.at("notes", "watchdog", number)
    out, what = page.flag("out"), page.text("last", "what")
    for reading in (out, what):
        if isinstance(reading, Unmeasured):
            yield replace(unread(f"{unit}: what the watchdog found", reading), subject=unit)
            return
    detail = page.text("last", "detail") or ""
    text = f"{what}: {detail}" if detail else str(what)
    if out:
        summary = f"{unit} was taken out of the gateway by the watchdog: {page.text('why') or text}"
        fault = failed(summary, text, _ANSWERS, Action.RESTART_SERVICE, part=unit)
        yield replace(fault, subject=unit)
    elif what == watching.Outcome.REFUSED.value:
        why = Unmeasured(f"the probe itself is refused: {detail}")
        yield replace(unread(f"{unit}: whether it answers", why), subject=unit)
    elif what in (watching.Outcome.NO_ANSWER.value, watching.Outcome.STALLED.value):
        summary = f"{unit} missed a probe: {text}"
        yield replace(noted(summary, None, text, _ANSWERS, part=unit), subject=unit)
    elif what == watching.Outcome.IN_DOUBT.value:
        summary = f"{unit} answered a golden prompt otherwise: {text}"
        yield replace(noted(summary, None, text, _ANSWERS, part=unit), subject=unit)


def _requested(expect: Expectation) -> View | None:
    """What the expectation says of the watchdog; None where it says nothing."""
    if expect.requested("watchdog", dict) is None:
        return None
    view = expect.at("watchdog")
    if isinstance(view.get(list, "replicas"), Unmeasured) or not view.text("unit"):
        raise Unexpected("watchdog: it must name the unit and the replicas")
    return view


def _running(requested: View, state: StateView) -> tuple[list[str], list[Finding]]:
    """The replicas that run, and a finding for each of which that is not known."""
    running, unknown = [], []
    for name in requested.get(list, "replicas") or []:
        reading = state.text("units", str(name), "active")
        if isinstance(reading, Unmeasured):
            unknown.append(replace(unread(f"the state of {name}", reading), subject=str(name)))
        elif reading in _ACTIVE:
            running.append(str(name))
    return running, unknown
