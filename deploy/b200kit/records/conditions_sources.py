"""What run conditions take from an observation and a result together. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from b200kit.node.latency.gpu_samples import REASONS, slowed_by
from b200kit.node.state.path import reach
from b200kit.node.state.view import Unmeasured


def observed(state: object, smoke: object, lock: object = None) -> dict[str, Any]:
    """What held during the run. *lock*: the libraries that the engine's lock file names.

    Path measured, warm-up rounds, where the replicas' memory is from, Xid codes, the libraries of
    the running servers, the GPUs that something slowed down.
    """
    return {
        "path": _path(smoke),
        "warm_rounds": _rounds(reach(state, "notes.warm")),
        "bound_nodes": _bound(reach(state, "processes")),
        "xids": _codes(reach(state, "xids")),
        "libraries": _libraries(reach(smoke, "conditions.libraries"), lock),
        "slowed": _slowed(reach(smoke, "gpus")),
    }


def _libraries(running: object, lock: object) -> dict[str, object]:
    """What runs, and what the lock file says of the rest."""
    known = [found for found in (lock, running) if isinstance(found, dict)]
    return {k: v for found in known for k, v in found.items() if k != "unmeasured"}


def _slowed(gpus: object) -> object:
    """GPU to what slowed it while the load ran; empty where nothing did."""
    if not isinstance(gpus, list) or not gpus:
        return _why(gpus, "the GPUs were not read during the run")
    found = {}
    for gpu in gpus:
        reasons = reach(gpu, REASONS)
        if not isinstance(reasons, int):
            return _why(reasons, "a GPU's event reasons were not read")
        if slowed_by(reasons):
            found[f"GPU {reach(gpu, 'index')}"] = ", ".join(slowed_by(reasons))
    return found or "none"


def _path(smoke: object) -> object:
    paths = reach(smoke, "paths")
    return next(iter(paths)) if isinstance(paths, dict) and paths else _why(paths, "no path")


def _rounds(warm: object) -> object:
    """The most rounds that any replica took."""
    if not isinstance(warm, Mapping) or not warm:
        return _why(warm, "no replica left a warm-up's record")
    counts = [_count(reach(entry, "rounds")) for entry in warm.values()]
    known = [count for count in counts if count is not None]
    return max(known) if len(known) == len(counts) else _why(None, "a warm-up names no rounds")


def _count(rounds: object) -> int | None:
    return len(rounds) if isinstance(rounds, list) else None


def _bound(processes: object) -> object:
    """Unit to the NUMA nodes that its processes are bound to, "" where to none."""
    if not isinstance(processes, list) or not processes:
        return _why(processes, "no process of a replica was observed")
    found: dict[str, set[str]] = {}
    for process in processes:
        unit, nodes = reach(process, "unit"), reach(process, "numa_maps_bound")
        if not isinstance(unit, str) or not isinstance(nodes, str):
            return _why(nodes, "a process's memory policy was not read")
        found.setdefault(unit, set()).add(nodes)
    return {unit: ",".join(sorted(filter(None, nodes))) for unit, nodes in sorted(found.items())}


def _codes(xids: object) -> object:
    """The Xid codes of this boot, each once."""
    if not isinstance(xids, list):
        return _why(xids, "no Xid was read")
    codes = {code for entry in xids if isinstance(code := reach(entry, "code"), int)}
    return sorted(codes)


def _why(value: object, otherwise: str) -> dict[str, str]:
    return {"unmeasured": value.reason if isinstance(value, Unmeasured) else otherwise}
