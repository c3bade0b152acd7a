"""A node that was deployed to serve does serve: each of its replicas runs, and so does the gateway.

Judged where the expectation names them, which check.py does and the gate does not: before the
serving stages nothing runs yet. Systemd starts again whatever ends by itself (Restart=always), so a
unit that stays inactive was stopped by somebody or was never started in this boot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from b200kit.node.checks.findings import failed, passed, rule, unread, within
from b200kit.node.checks.judge import check
from b200kit.node.checks.serving.units import ACTIVE, NOT_ASKED, replicas_of
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unread, View

NOT_DEPLOYED = "nothing that serves is installed yet: b200 deploy does it"
STARTING = "serving.starting"
_GATE = "b200-gate.service"
_RUNS = rule("active", "a node serves with all that it was deployed with, or it is not fit")


@check("serving.running")
def running(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Where replicas are installed, each of them runs, and the gateway; or one is starting."""
    if expect.requested(dict, "serving") is None:
        yield passed(NOT_ASKED)
        return
    units = _units(expect, state)
    if not units:
        yield passed(NOT_DEPLOYED, _RUNS)
        return
    found = [one for name in units for one in within(_judged(name, state), subject=name)]
    yield from found or [passed(f"none of {', '.join(units)} has stopped", _RUNS)]


@check(STARTING)
def starting(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """None of them is still starting: until it is warm, nobody knows whether it serves."""
    units = () if expect.requested(dict, "serving") is None else _units(expect, state)
    found = [one for name in units for one in within(_on_its_way(name, state), subject=name)]
    yield from found or [passed("nothing that serves is starting or stopping")]


def _units(expect: Expectation, state: StateView) -> tuple[str, ...]:
    """The replicas and the gateway; none where no replica was ever installed."""
    replicas = replicas_of(expect)
    if all(state.reading("units", name, "load") == "not-found" for name in replicas):
        return ()
    gateway = expect.requested(str, "serving", "gateway")
    return (*replicas, gateway) if gateway else tuple(replicas)


def _judged(name: str, state: StateView) -> Iterator[Finding]:
    """A finding of a unit that does not run and is not about to."""
    unit = state.at("units", name)
    if unit.text("active") not in ACTIVE and not _moves(unit):
        summary, why = f"{name} does not serve: {_why(unit, state)}", _why(unit, state)
        yield failed(summary, why, _RUNS, Action.RESTART_SERVICE, part=name, subject=name)


def _moves(unit: View) -> bool:
    """Whether it is on its way up or down: at work, or its turn comes. One that died is neither."""
    if unit.text("active") == "activating":
        return unit.reading("sub") != "auto-restart"
    return unit.text("active") == "deactivating" or bool(unit.known(int, "job"))


def _why(unit: View, state: StateView) -> str:
    """What ended it, as systemd tells it."""
    active, load, result = (unit.known(str, key) for key in ("active", "load", "result"))
    if load in ("masked", "not-found"):
        return f"it is {load}"
    if active == "activating":
        again = unit.known(int, "n_restarts") or 0
        return f"it ended ({result or 'unknown'}) and is started again, after {again} restarts"
    if active == "failed":
        code = unit.known(int, "exit_status")
        ended = f"{result or 'unknown'}, exit code {'unknown' if code is None else code}"
        return f"it failed ({ended}) and systemd does not restart it"
    if state.reading("units", _GATE, "active") == "failed":
        return f"it is {active}: {_GATE} refused its start"
    return f"it is {active}: somebody stopped it, or nobody has started it since the boot"


def _on_its_way(name: str, state: StateView) -> Iterator[Finding]:
    """A finding of a unit that starts or stops, or of which that is not known."""
    unit = state.at("units", name)
    active = unit.text("active")
    if active in ("inactive", "failed"):
        unit.number("job")  # its turn may come
    if active not in ACTIVE and _moves(unit):
        waits = "" if active in ("activating", "deactivating") else ", waiting for its turn"
        doing = "stopping" if active == "deactivating" else f"starting{waits}"
        found = unread(Unread(name, f"it is {doing}"), name)
        yield replace(found, summary=f"{name} is {doing}; it is judged when it is warm")
