"""One observation of a node: what to ask for, and the lock that comes with it."""

from __future__ import annotations

import json
import shlex
from typing import Any

from b200kit.converge import disk_space
from b200kit.converge.stage import DesiredState
from b200kit.node.lib.documents import unstructure
from b200kit.node.state import drift
from b200kit.node.state.drift import File
from b200kit.readiness import expected
from b200kit.run import process
from b200kit.run.node import Node, StageFailed
from b200kit.stages import pipeline, serving

# Longer than the longest command of a stage, so that a lock in use never runs out.
_LOCK_TTL_S = 3 * 3600


def refresh(node: Node, run: str, lock: bool = True) -> None:
    """Observe *node* again; with *lock*, take or keep its lock, or fail naming who holds it."""
    request = observe_request(node)
    if lock:
        request["lock"] = {
            "owner": process.owner(),
            "process": unstructure(process.this()),
            "run": run,
            "ttl_s": _LOCK_TTL_S,
        }
    node.take_observation(node.connected().observe(request))
    if not lock or _acquired(node):
        return
    message = (node.state or {}).get("lock")
    held = message if isinstance(message, dict) else {}
    if "owner" not in held:
        raise StageFailed(f"its lock cannot be taken: {held.get('unmeasured', 'no answer')}")
    if not process.is_dead(held.get("process")):
        raise StageFailed(
            f"{held.get('owner')} has been working on this node since {held.get('since')}; "
            f"wait for it, or for its lock to run out at {held.get('until')}"
        )
    request["lock"]["steal_run"] = held.get("run")
    node.take_observation(node.connected().observe(request))
    if not _acquired(node):
        raise StageFailed("the lock left by a dead run could not be taken over")


def _acquired(node: Node) -> bool:
    lock = (node.state or {}).get("lock")
    return isinstance(lock, dict) and lock.get("acquired") is True


def release(node: Node, run: str) -> None:
    """Give the lock back if it is this run's; an unreachable node keeps it until it runs out."""
    # Owner and run, as the lock has them: two runs that began in one second have the same name.
    ours = shlex.quote(json.dumps({"owner": process.owner(), "run": run})[1:-1])
    lock = "/run/b200kit/lock.json"
    node.connected().attempt(f"grep -qF {ours} {lock} 2>/dev/null && rm -f {lock}", timeout=10)


def observe_request(node: Node) -> dict[str, Any]:
    """Everything any stage decides by, as one request.

    The first one follows from a node's data alone, and is made once for nodes of equal data.
    """
    if node.state is not None:
        return _request(node)
    known = node.alike.get("request")
    # A rollback and a tried layout work with another spec than the inventory's.
    if known is None or known[0] is not node.spec:
        known = node.alike["request"] = (node.spec, _request(node))
    request = known[1]
    return {**request, "secrets": dict.fromkeys(request["secrets"], node.nonce)}


def _request(node: Node) -> dict[str, Any]:
    desired = pipeline.desired(node)
    files = [file for part in desired for file in part.files]
    return {
        "files": _paths(files, desired),
        "secrets": {file.path: node.nonce for file in files if file.secret},
        "units": sorted(
            {unit.name for part in desired for unit in part.units}
            | {name for part in desired for name in (*part.absent_units, *part.probe_units)}
        ),
        "packages": sorted({package.name for part in desired for package in part.packages}),
        "placement": sorted(serving.replica_units(node)),
        "disks": sorted({*disk_space.PATHS, *expected.PATHS, node.spec.models()}),
        **{key: what for part in desired for key, what in part.observe_request.items()},
    }


def _paths(files: list[File], desired: list[DesiredState]) -> list[str]:
    plain = {file.path for file in files if not file.secret}
    markers = {drift.pending_marker(act) for file in files for act in file.notify}
    return sorted(
        plain
        | markers
        | {path for part in desired for path in (*part.probe_files, *part.absent_files)}
    )
