"""The units that serve, for checks: which are to, and which run. No check itself."""

from __future__ import annotations

from collections.abc import Iterable

from b200kit.node.checks.findings import unread
from b200kit.node.state.expectation import Expectation, Unexpected
from b200kit.node.state.verdict import Finding
from b200kit.node.state.view import StateView, Unread

NOT_ASKED = "nothing that serves is asked for"
ACTIVE = ("active", "reloading")


def replicas_of(expect: Expectation) -> list[str]:
    """The replicas that are to serve."""
    replicas = expect.get(list, "serving", "replicas")
    if not replicas or not all(isinstance(name, str) for name in replicas):
        raise Unexpected("serving", "it must name the replicas")
    return replicas


def which_run(units: Iterable[str], state: StateView) -> tuple[list[str], list[Finding]]:
    """Those that run, and a finding for each of which that is not known."""
    running, unknown = [], []
    for unit in units:
        try:
            if state.text("units", unit, "active") in ACTIVE:
                running.append(unit)
        except Unread as error:
            unknown.append(unread(error, unit))
    return running, unknown
