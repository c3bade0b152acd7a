"""Units that must be active: those the hardware needs, and those the inventory names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from b200kit.node.checks.findings import failed, passed, rule, within
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, View


def active(
    state: StateView, names: Iterable[str], expected: Expected, daemon: bool = False
) -> Iterator[Finding]:
    """A finding for every unit that is not active, and one pass when all are.

    A daemon is active with a main process; "active (exited)" is a unit that did its work and ended.
    """
    desired = list(names)
    found = [
        finding
        for name in desired
        for finding in within(down(name, state.at("units", name), expected, daemon), part=name)
    ]
    yield from found or [
        passed(f"active: {', '.join(desired) or 'no unit was asked for'}", expected)
    ]


def down(name: str, unit: View, expected: Expected, daemon: bool) -> Iterator[Finding]:
    """A finding for a unit that is not active, or for a daemon without a main process."""
    active = unit.text("active")
    sub, result = unit.known(str, "sub") or "?", unit.known(str, "result") or "?"
    if active != "active":
        masked = "masked, " if unit.known(str, "load") == "masked" else ""
        why = f"{masked}{active}, {sub}, result {result}"
        summary = f"{name} is not active ({why})"
        yield failed(summary, why, expected, Action.RESTART_SERVICE, part=name)
    elif daemon and unit.number("main_pid") == 0:
        why = f"active, {sub}, without a main process"
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
