"""Watchdog: the agent runs, looks at the node and watches every replica, and has not marked it.

The agent takes up a new serving.json, other rules or a new node program by itself (it ends, and
systemd starts it again), so none of them notifies a restart here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from b200kit.converge.stage import Change, DesiredState, Stage, converge, removal
from b200kit.node.lib import hours
from b200kit.node.placement import layout as layouts
from b200kit.node.placement.layout import Replica
from b200kit.node.state import agent, watchdog
from b200kit.node.state.drift import File, NodeUnit
from b200kit.node.state.expectation import PATH as EXPECT
from b200kit.node.state.view import StateView
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import INSTALLED
from b200kit.run.render import render
from b200kit.stages import proof, serving

UNIT = agent.UNIT
RENEWAL = "b200-renew.service"
RENEWAL_TIMER = "b200-renew.timer"
_RENEWAL = {RENEWAL: RENEWAL_TIMER, RENEWAL_TIMER: RENEWAL_TIMER}
"""Unit to what a change of it restarts: never the measurement itself."""
MARKED = "end here: the node is marked"
"""What the change says that refuses a marked node."""


def desired(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """The agent's unit, running, and the timer of the measurements that renew its proof."""
    if node.headless:
        # There is nobody to ask; b200-peers.service watches the replica instead.
        return DesiredState()
    api_key = f"{serving.SECRETS}/api_key" if "api_key" in node.secrets else None
    renews = proof.renews(node)
    restarted = {UNIT: UNIT, **(_RENEWAL if renews else {})}
    files = [
        File(
            f"/etc/systemd/system/{unit}",
            render(
                f"systemd/{unit}.j2",
                node=node.name,
                spec=node.spec,
                program=INSTALLED,
                serving=serving.SERVING,
                expect=(EXPECT, serving.EXPECT),
                api_key=api_key,
                cpus=layouts.reserved(node.state, layout) if node.state else "",
                proof=proof.RULES if proof.is_issued(node) else None,
                hours=hours.parsed(node.spec.proof.renew.window),
            ),
            notify=(f"restart:{user}",),
        )
        for unit, user in restarted.items()
    ]
    return DesiredState(
        files=(*proof.files(node), *files),
        units=(NodeUnit(UNIT), *([NodeUnit(RENEWAL_TIMER)] if renews else [])),
        absent_files=() if renews else tuple(f"/etc/systemd/system/{unit}" for unit in _RENEWAL),
    )


def expected(node: Node) -> dict[str, Any]:
    """What check.py judges besides the gate's expectation: a marked node may go on serving."""
    if node.headless:
        return serving.expected(node)
    most_s = 3 * node.spec.watchdog.health_check_s + node.spec.watchdog.health_check_deadline_s
    replicas = serving.replica_units(node)
    watched = {"unit": UNIT, "replicas": replicas, "health_age_max_s": round(most_s)}
    return {"watchdog": watched, **serving.expected(node)}


def plan(node: Node) -> list[Change]:
    """Start the watchdog; a node that it has marked is not live."""
    target = desired(node, node.layout())
    changes = [*removal(node, target), *converge(node, target)]
    if not node.headless and not _was_looked_at(node.state or {}):
        changes.append(Change("check the node for the first time", look))
    notes = (node.state or {}).get("notes")
    mark = notes.get("watchdog_mark") if isinstance(notes, dict) else None
    if mark is not None:
        # Last, so that a node that was marked is watched all the same.
        changes.append(Change(MARKED, lambda _: _refuse(mark)))
    return changes


def _was_looked_at(state: Mapping[str, Any]) -> bool:
    """Whether a health check of this boot has ended."""
    return StateView(state).known(str, "notes", "watch", "schema") is not None


def look(node: Node) -> None:
    """Look now, with everything read anew, and wait for its end.

    One that began before has not seen what runs by now; a node whose health checks fail is not
    live.
    """
    limit_s = round(2 * node.spec.watchdog.health_check_deadline_s + 30)
    node.connected().program(f"health-check --within {limit_s}", timeout=limit_s + 30)


def _refuse(mark: object) -> None:
    raise StageFailed(str(watchdog.mark_of(mark)))


STAGE = Stage(name="watchdog", desired=desired, plan=plan)
