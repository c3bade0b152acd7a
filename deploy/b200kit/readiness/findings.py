"""How the checks of readiness make findings: every one that blocks says what to do. Pure."""

from __future__ import annotations

from b200kit.node.checks.findings import failed, noted, rule
from b200kit.node.state.verdict import Action, Finding


def refused(summary: str, read: object, why: str, remedy: str) -> Finding:
    """Something that a run would meet halfway; nothing is changed on such a node."""
    expected = rule(why, "before the first change")
    return failed(summary, read, expected, Action.NONE, remedy=remedy)


def note(summary: str, read: object) -> Finding:
    """Something to know, which a run can deal with."""
    return noted(summary, None, read, rule("known beforehand", "before the first change"))
