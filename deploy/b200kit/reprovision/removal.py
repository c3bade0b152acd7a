"""Take b200kit off a node: drained where it serves, within the floor, by the node's own list.

What goes is known by what was put there (b200kit/node/lib/installed.py), whatever the inventory
asks for by now. Driver, container toolkit and models stay unless `remove` names them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from b200kit.converge.stage import Change, Stage, nominal_layout, nothing
from b200kit.node.lib import documents
from b200kit.node.lib.documents import unstructure
from b200kit.node.maintenance.removal import KeptParts, RemovalPlan
from b200kit.reprovision import circuit_breaker, drain, traffic
from b200kit.reprovision.actions import quarantine
from b200kit.reprovision.fleet_limits import SAFETY
from b200kit.reprovision.owner import is_set_aside, serves
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import RemoteError
from b200kit.run.session import RUN
from b200kit.stages import containers, serving_units, storage
from b200kit.stages.support.driver_set import stack

_WHY = "b200kit is being removed"
_LIMIT_S = 1900


def plan(node: Node) -> list[Change]:
    """What would go; none where nothing of ours is there. Raises StageFailed below the floor."""
    SAFETY.inventory = RUN.inventory
    loaded = serves(node) and not is_set_aside(node)
    SAFETY.mark_observed(node, loaded)
    if reason := circuit_breaker.floor_reason(SAFETY.fleet(node), node.name, loaded):
        raise StageFailed(f"not removed: {reason}")
    kept = unstructure(_kept(node))
    found = _planned(node, kept)
    parts = {
        "units": [("stop and remove", found.units)],
        "files": [("remove", found.files), ("put back", found.put_back)],
        "packages": [("purge", found.packages)],
        "folders": [("remove", found.folders)],
    }
    changes = [
        Change(", ".join(words), partial(_remove, part=part, kept=kept))
        for part, acts in parts.items()
        if (words := [f"{verb} {_listed(names)}" for verb, names in acts if names])
    ]
    running = serving_units.running(node, serving_units.units(node))
    if running and found.units:
        act = partial(_stop, drained=loaded)
        changes.insert(0, Change("drain it and stop what serves", act, ends=tuple(running)))
    return [*changes, *([Change(*_last(found))] if changes else [])]


def _planned(node: Node, kept: Mapping[str, Any]) -> RemovalPlan:
    said = node.connected().program("removal plan", stdin=json.dumps(kept))
    try:
        return documents.decode(RemovalPlan, said, documents.LARGE, "what would be removed")
    except documents.Malformed as error:
        raise RemoteError(str(error)) from None


def _kept(node: Node) -> KeptParts:
    layout = nominal_layout(node)
    packages = (*stack(node).packages, *containers.desired(node, layout).packages)
    mounted = storage.desired(node, layout)
    models = "weights" in node.spec.remove
    return KeptParts(
        files=() if models else tuple(file.path for file in mounted.files),
        packages=(
            *(() if "driver" in node.spec.remove else _names(packages)),
            *(() if models else _names(mounted.packages)),
        ),
        also=(node.spec.models(),) if models else (),
    )


def _names(packages: Iterable[Any]) -> tuple[str, ...]:
    return tuple(package.name for package in packages)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _last(found: RemovalPlan) -> tuple[str, Any]:
    left = f"; other packages need {_listed(found.stays)}, which stay" if found.stays else ""
    boot = "; kernel command line and module options hold until it boots" if found.at_boot else ""
    return f"look whether anything is left{left}{boot}", _require_gone


def _stop(node: Node, drained: bool) -> None:
    """Take it out, wait for open requests, stop the gateway and the replicas behind it."""
    if drained:
        SAFETY.enter(node, True)
        try:
            senders, say = traffic.adapters(node), partial(node.say, "remove")
            for sender in senders:
                sender.drain(node, _WHY)
            say(drain.drain(node, senders, say))
        except traffic.ActionFailed as error:
            SAFETY.leave(node.name, True)
            raise StageFailed(str(error)) from None
        except StageFailed:
            SAFETY.leave(node.name, True)
            raise
    # Whatever was read of them: a unit that was never started cannot be stopped by its name.
    quarantine.stop(node)
    SAFETY.leave(node.name, False)


def _remove(node: Node, part: str, kept: Mapping[str, Any]) -> None:
    node.connected().program(f"removal {part}", stdin=json.dumps(kept), timeout=_LIMIT_S)


def _require_gone(node: Node) -> None:
    found = _planned(node, unstructure(_kept(node)))
    left = [*found.units, *found.files, *found.packages, *found.users, *found.folders]
    if left:
        raise StageFailed(f"still there: {_listed(left)}; run again")


STAGE = Stage(name="remove", desired=nothing, plan=plan)


def conclude(node: Node) -> None:
    """Nothing of b200kit is on the node."""
    node.record.outcome = "removed"
