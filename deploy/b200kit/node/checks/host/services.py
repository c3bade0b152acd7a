"""Units that must be active: those the hardware needs, and those the inventory names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from b200kit.node.checks.findings import failed, passed, rule, unread
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unmeasured, View


def active(
    state: StateView, names: Iterable[str], expected: Expected, daemon: bool = False
) -> Iterator[Finding]:
    """A finding for every unit that is not active, and one pass when all are.

    A daemon is active with a main process; "active (exited)" is a unit that did its work and ended.
    """
    desired, found = list(names), []
    for name in desired:
        unit = state.at("units", name)
        reading = unit.text("active")
        if isinstance(reading, Unmeasured):
            found.append(replace(unread(f"the state of {name}", reading), part=name))
        elif reading == "active" and daemon:
            found += without_process(name, unit, expected)
        elif reading != "active":
            masked = "masked, " if unit.text("load") == "masked" else ""
            why = f"{reading}, {unit.text('sub') or '?'}, result {unit.text('result') or '?'}"
            why = masked + why
            summary = f"{name} is not active ({why})"
            found.append(failed(summary, why, expected, Action.RESTART_SERVICE, part=name))
    yield from found or [
        passed(f"active: {', '.join(desired) or 'no unit was asked for'}", expected)
    ]


def without_process(name: str, unit: View, expected: Expected) -> Iterator[Finding]:
    """A finding for a daemon that is active without a main process."""
    pid = unit.number("main_pid")
    if isinstance(pid, Unmeasured):
        yield replace(unread(f"the main process of {name}", pid), part=name)
    elif pid == 0:
        why = f"active, {unit.text('sub') or '?'}, without a main process"
        summary = f"{name} does not run ({why})"
        yield failed(summary, why, expected, Action.RESTART_SERVICE, part=name)


@check("services.active")
def services(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The units the inventory wants before the node may serve."""
    return active(state, expect.services(), rule("active", "services of the inventory"))


@check("fabric.units")
def fabric_units(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The fabric manager runs; the GPUs go on saying Completed long after it died."""
    names = expect.words("fabric.units")
    return active(state, names.value, Expected("active", "", names.source), daemon=True)
