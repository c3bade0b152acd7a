"""Replicas that run on GPUs which the layout now gives others. They end before the others start.

A replica holds its GPUs until it stops, and one that starts on a held GPU is refused (gpu-free). So
four replicas of two GPUs do not become two of four by restarts one after another: all that serves
is stopped, and starts again. That is done only where it takes nothing from anybody: the node is out
of rotation, or its inventory says that no replica need stay in it, and no request is under way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from b200kit.converge.stage import Change
from b200kit.inventory.keys.gateway import floor
from b200kit.node.placement.layout import Replica
from b200kit.run.node import Node, StageFailed
from b200kit.serving.replica import unit_name

# A line of `rotation list` about a replica: name, HAProxy's status, requests under way.
SERVER = re.compile(r"^(vllm[0-9]+) +(\S.*?) +([0-9]+) requests$", re.MULTILINE)
_GATEWAY = "haproxy.service"
_STOP = "replicas get other GPUs, so all of them must stop, and"
_REMEDY = (
    "take the node out at the fleet's gateways and run again with min_available 0 (docs/upgrade.md)"
)


def in_the_way(state: Mapping[str, Any], layout: Sequence[Replica]) -> list[str]:
    """Units that run on a GPU which the layout gives another unit, by what their processes show.

    Where that was not read nothing is known to be in the way: gpu-free then refuses the start.
    """
    desired = {unit_name(planned.replica): {*planned.uuids} for planned in layout}
    rows = state.get("processes")
    given: dict[str, set[str]] = {}
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row.get("gpus"), list):
            given.setdefault(row["unit"], set()).update(row["gpus"])
    return sorted(
        unit
        for unit, held in given.items()
        if any(held & uuids for other, uuids in desired.items() if other != unit)
    )


def plan(node: Node) -> list[Change]:
    """Before a file is changed: that nobody is served who would be cut off."""
    moved = in_the_way(node.state or {}, node.layout())
    if not moved:
        return []
    what = f"see that {', '.join(moved)} may stop: others get their GPUs"
    return [Change(what, may_stop, looks=True)]


def may_stop(node: Node) -> None:
    """Raises StageFailed where the gateway has a request under way, or may get one.

    Asked before a file is changed, and again right before the stop: an engine may be installed in
    between. Where the gateway is stopped, as after a change of GPUs that was broken off, nobody is.
    """
    gateway = node.connected().attempt(f"systemctl is-active {_GATEWAY}", timeout=30)
    if gateway.stdout.strip() in ("inactive", "failed"):
        return
    table = node.connected().program("rotation list", timeout=30)
    least = floor(node.spec.min_available, node.spec.replicas)
    for name, status, answering in SERVER.findall(table):
        if answering != "0":
            raise StageFailed(f"{_STOP} {name} answers {answering} requests: {_REMEDY}")
        if least and status.startswith(("UP", "no check")):
            raise StageFailed(f"{_STOP} {name} is in rotation (min_available {least}): {_REMEDY}")
