"""Judging a node on the controller, with the same code and the same expectation as on the node."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from deploy.core.judge import judge
from deploy.core.verdict import Verdict
from deploy.remote import RemoteError
from deploy.run import Node, StageFailed, duration
from deploy.stages import gate

Observer = Callable[[Node], dict[str, Any]]


def judged(node: Node, observer: Observer) -> Verdict:
    """The verdict on the node as it is now; kept with the node for the report."""
    state = observer(node)
    node.expectation = {**gate.expectation(node), "today": datetime.now(UTC).date().isoformat()}
    verdict = judge(node.expectation, state)
    node.verdict = verdict.to_json()
    return verdict


def require(node: Node, observer: Observer) -> None:
    """Keep the node only if it is fit; otherwise stop what serves there and drop it."""
    with node.stage("gate") as entry:
        verdict = judged(node, observer)
        counts = verdict.counts
        entry["detail"] = f"{sum(counts.values())} checks, {counts['unmeasured']} unmeasured"
        if verdict.fit == "fit":
            return
        # The fault is named before anything is done about it: what follows may fail, too.
        node.fail("gate", _why(verdict), outcome="red")
        _withdraw(node, entry)


def _withdraw(node: Node, entry: dict[str, Any]) -> None:
    try:
        entry["changes"] += [f"stop {unit}" for unit in gate.withdraw(node)]
    except RemoteError as error:
        entry["detail"] = f"could not be stopped from serving: {error}"
        node.say("gate", f"STILL SERVING, {entry['detail']}")


def report(node: Node, observer: Observer) -> None:
    """Judge only: the outcome is the verdict."""
    with node.stage("check"):
        verdict = judged(node, observer)
    node.outcome = verdict.fit
    node.error = None if verdict.fit == "fit" else _why(verdict)


def _why(verdict: Verdict) -> str:
    worst = verdict.blocking[0]
    more = len(verdict.blocking) - 1
    return worst.summary + (f" (and {more} more)" if more else "")


def conclude(node: Node) -> None:
    """Mark the node live and say so on one line."""
    if node.state is None and node.smoke is None:
        raise StageFailed("not measured")
    node.outcome = "live"
    if node.changes:
        node.say("LIVE", f"{node.changes} change{'s' if node.changes != 1 else ''}")
    else:
        age = f"last smoke {duration(node.smoke_age_s)} ago, " if node.smoke_age_s else ""
        remote = node.connected()
        node.say("LIVE", f"no change, {age}{remote.commands} commands")
