"""A node that was deployed to serve does serve: each of its replicas runs, and so does the gateway.

Judged where the expectation names them, which check.py does and the gate does not: before the
serving stages nothing runs yet. Systemd starts again whatever ends by itself (Restart=always), so a
unit that stays inactive was stopped by somebody or was never started in this boot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from b200kit.node.checks.findings import failed, passed, rule, unread
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation, Unexpected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unmeasured, View

NOT_ASKED = "nothing that serves is asked for"
NOT_DEPLOYED = "nothing that serves is installed yet: deploy/b200.py does it"
STARTING = "serving.starting"
_ACTIVE = ("active", "reloading")
_GATE = "b200-gate.service"
_RUNS = rule("active", "a node serves with all that it was deployed with, or it is not fit")


@check("serving.running")
def running(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Where replicas are installed, each of them runs, and the gateway; or one is starting."""
    requested = expect.requested("serving", dict)
    if requested is None:
        yield passed(NOT_ASKED)
        return
    units = _units(expect.at("serving"), state)
    if not units:
        yield passed(NOT_DEPLOYED, _RUNS)
        return
    found = [finding for name in units for finding in _judged(name, state)]
    yield from found or [passed(f"none of {', '.join(units)} has stopped", _RUNS)]


@check(STARTING)
def starting(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """None of them is still starting: until it is warm, nobody knows whether it serves."""
    requested = expect.requested("serving", dict)
    units = () if requested is None else _units(expect.at("serving"), state)
    found = [replace(why, subject=name) for name in units for why in _on_its_way(name, state)]
    yield from found or [passed("nothing that serves is starting or stopping")]


def _units(requested: View, state: StateView) -> tuple[str, ...]:
    """The replicas and the gateway; none where no replica was ever installed."""
    replicas = requested.get(list, "replicas")
    if not replicas or not all(isinstance(name, str) for name in replicas):
        raise Unexpected("serving: it must name the replicas")
    if all(state.text("units", name, "load") == "not-found" for name in replicas):
        return ()
    gateway = requested.text("gateway")
    return (*replicas, gateway) if gateway else tuple(replicas)


def _judged(name: str, state: StateView) -> Iterator[Finding]:
    """A finding of a unit that does not run and is not about to."""
    unit = state.at("units", name)
    active = unit.text("active")
    if isinstance(active, Unmeasured):
        yield replace(unread(f"whether {name} runs", active), subject=name)
    elif active not in _ACTIVE and not _moves(unit):
        why = _why(unit, state)
        fault = failed(f"{name} does not serve: {why}", why, _RUNS, Action.RESTART_SERVICE)
        yield replace(fault, subject=name, part=name)


def _moves(unit: View) -> bool:
    """Whether it is on its way up or down: at work, or its turn comes. One that died is neither."""
    if unit.text("active") == "activating":
        return unit.text("sub") != "auto-restart"
    return unit.text("active") == "deactivating" or bool(unit.number("job"))


def _why(unit: View, state: StateView) -> str:
    """What ended it, as systemd tells it."""
    active, result = unit.text("active"), unit.text("result") or "unknown"
    if unit.text("load") in ("masked", "not-found"):
        return f"it is {unit.text('load')}"
    if active == "activating":
        again = unit.number("n_restarts") or 0
        return f"it ended ({result}) and is started again, after {again} restarts"
    if active == "failed":
        return f"it failed ({result}, exit code {_exit_code(unit)}) and systemd does not restart it"
    if state.text("units", _GATE, "active") == "failed":
        return f"it is {active}: {_GATE} refused its start"
    return f"it is {active}: somebody stopped it, or nobody has started it since the boot"


def _exit_code(unit: View) -> str:
    code = unit.number("exit_status")
    return "unknown" if isinstance(code, Unmeasured) else str(code)


def _on_its_way(name: str, state: StateView) -> Iterator[Finding]:
    """A finding of a unit that starts or stops, or of which that is not known."""
    unit = state.at("units", name)
    active, job = unit.text("active"), unit.number("job")
    if isinstance(active, Unmeasured):
        yield unread(f"whether {name} is starting", active)
    elif active in ("inactive", "failed") and isinstance(job, Unmeasured):
        yield unread(f"whether {name} is starting", job)
    elif active not in _ACTIVE and _moves(unit):
        waits = "" if active in ("activating", "deactivating") else ", waiting for its turn"
        doing = "stopping" if active == "deactivating" else f"starting{waits}"
        found = unread(f"whether {name} serves", Unmeasured(f"it is {doing}"))
        yield replace(found, summary=f"{name} is {doing}; it is judged when it is warm")
