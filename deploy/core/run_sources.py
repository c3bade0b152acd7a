"""What a manifest takes from an observation and a result together. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deploy.core.reach import reach
from deploy.core.state import Unmeasured


def seen(state: object, smoke: object) -> dict[str, Any]:
    """Path measured, warm-up rounds, where the replicas' memory is from, Xid codes."""
    return {
        "path": _path(smoke),
        "warm_rounds": _rounds(reach(state, "notes.warm")),
        "bound_nodes": _bound(reach(state, "processes")),
        "xids": _codes(reach(state, "xids")),
    }


def _path(smoke: object) -> object:
    paths = reach(smoke, "paths")
    return next(iter(paths)) if isinstance(paths, dict) and paths else _why(paths, "no path")


def _rounds(warm: object) -> object:
    """The most rounds that any replica took."""
    if not isinstance(warm, Mapping) or not warm:
        return _why(warm, "no replica left a warm-up's record")
    counts = [_count(reach(entry, "rounds")) for entry in warm.values()]
    known = [count for count in counts if count is not None]
    return max(known) if len(known) == len(counts) else _why(None, "a warm-up tells no rounds")


def _count(rounds: object) -> int | None:
    return len(rounds) if isinstance(rounds, list) else None


def _bound(processes: object) -> object:
    """Unit to the NUMA nodes that its processes are bound to, "" where to none."""
    if not isinstance(processes, list) or not processes:
        return _why(processes, "no process of a replica was seen")
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
