"""Fabric: persistence daemon and fabric manager run, and the NVLink fabric has time to complete.

The stage never judges: a fabric that does not complete within the deadline goes on to the gate,
which refuses the node by name of its fault and its GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence

from deploy.core.drift import Unit
from deploy.core.layout import Replica
from deploy.run import Node
from deploy.stages.base import Change, Stage, Wanted, converge
from deploy.stages.driver import UNITS

# NVML_GPU_FABRIC_STATE_NOT_STARTED and _IN_PROGRESS (nvml.h): these may still become COMPLETED.
_IN_PROGRESS = (1, 2)


def wanted(node: Node, layout: Sequence[Replica]) -> Wanted:
    """Both daemons running."""
    del node, layout
    return Wanted(units=tuple(Unit(name) for name in UNITS))


def plan(node: Node) -> list[Change]:
    """Start what does not run; wait only when something is still in progress."""
    changes = converge(node, wanted(node, ()))
    if changes or _unfinished(node.state or {}):
        changes.append(Change("wait for the fabric", _wait))
    return changes


def _unfinished(state: dict[str, object]) -> list[int]:
    """Indices of the GPUs whose fabric registration is not started or in progress."""
    gpus = state.get("gpus")
    waiting = []
    for gpu in gpus if isinstance(gpus, list) else []:
        fabric = gpu.get("fabric")
        if isinstance(fabric, dict) and fabric.get("state") in _IN_PROGRESS:
            waiting.append(int(gpu["index"]))
    return waiting


def _wait(node: Node) -> str:
    """Let the node program wait on the node: one command instead of polling over the network."""
    deadline = node.spec.fabric_deadline_s
    seen = node.connected().program(f"wait-fabric --deadline {deadline}", timeout=deadline + 60)
    return seen.strip()


STAGE = Stage(name="fabric", wanted=wanted, plan=plan)
