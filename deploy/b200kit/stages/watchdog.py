"""Watchdog: it runs and watches every replica, and it has not marked the node.

The watchdog takes up a new serving.json or a new node program by itself (it ends, and systemd
starts it again), so neither notifies a restart here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from b200kit.converge.stage import Change, DesiredState, Stage, converge
from b200kit.node.placement.layout import Replica
from b200kit.node.state import watchdog
from b200kit.node.state.drift import File, Unit
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import INSTALLED
from b200kit.run.render import render
from b200kit.stages import serving

UNIT = "b200-watchdog.service"
MARKED = "end here: the node is marked"
"""What the change says that refuses a marked node."""


def desired(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """The watchdog's unit, running."""
    del layout
    if node.headless:
        # There is nobody to ask; b200-peers.service watches the replica instead.
        return DesiredState()
    unit = render(
        "systemd/b200-watchdog.service.j2",
        spec=node.spec,
        program=INSTALLED,
        serving=serving.SERVING,
        api_key=f"{serving.SECRETS}/api_key" if "api_key" in node.secrets else None,
    )
    return DesiredState(
        files=(File(f"/etc/systemd/system/{UNIT}", unit, notify=(f"restart:{UNIT}",)),),
        units=(Unit(UNIT),),
    )


def expected(node: Node) -> dict[str, Any]:
    """What check.py judges besides the gate's expectation: a marked node may go on serving."""
    if node.headless:
        return {}
    return {"watchdog": {"unit": UNIT, "replicas": serving.replica_units(node)}}


def plan(node: Node) -> list[Change]:
    """Start the watchdog; a node that it has marked is not live."""
    changes = converge(node, desired(node, node.layout()))
    notes = (node.state or {}).get("notes")
    mark = notes.get("watchdog_mark") if isinstance(notes, dict) else None
    if mark is not None:
        # Last, so that a node that was marked is watched all the same.
        changes.append(Change(MARKED, lambda _: _refuse(mark)))
    return changes


def _refuse(mark: object) -> None:
    raise StageFailed(watchdog.describe(mark))


STAGE = Stage(name="watchdog", desired=desired, plan=plan)
