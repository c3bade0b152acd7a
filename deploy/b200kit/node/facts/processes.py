"""Where the processes of units really run: CPUs, memory nodes and policy, and their GPUs."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from b200kit.node.lib.readings import attempt, is_unmeasured, text, unmeasured

CGROUPS = Path("/sys/fs/cgroup")
PROC = Path("/proc")
BOUND = re.compile(r"\bbind(?:=[A-Za-z0-9_]+)?:([0-9,-]+)")


def processes(units: dict[str, Any], names: Iterable[str]) -> list[dict[str, Any]]:
    """Every process in the control groups of the named units."""
    found: list[dict[str, Any]] = []
    for name in names:
        entry = units.get(name, unmeasured("unit was not read"))
        if is_unmeasured(entry):
            found.append({"unit": name, "pid": entry, "comm": entry, "cpus": entry, "mems": entry})
            continue
        found += [process(name, pid) for pid in members(entry["control_group"])]
    return [entry for entry in found if entry]


def members(group: str) -> list[int]:
    """Process ids in a control group and below it; none where the unit is not running."""
    root = CGROUPS / group.lstrip("/")
    if not group.strip("/") or not root.is_dir():
        return []
    pids: set[int] = set()
    for procs in [root / "cgroup.procs", *root.rglob("*/cgroup.procs")]:
        listing = attempt(partial(text, procs))
        pids |= {int(pid) for pid in listing.split()} if isinstance(listing, str) else set()
    return sorted(pids)


def process(unit: str, pid: int) -> dict[str, Any]:
    """One process, or nothing when it ended meanwhile."""
    try:
        status = dict(line.split(":", 1) for line in text(PROC / str(pid) / "status").splitlines())
    except (OSError, ValueError):
        return {}
    return {
        "unit": unit,
        "pid": pid,
        "comm": status.get("Name", "").strip(),
        "cpus": status.get("Cpus_allowed_list", "").strip(),
        "mems": status.get("Mems_allowed_list", "").strip(),
        "numa_maps_bound": attempt(lambda: bound_nodes(pid)),
        "soft_limits": attempt(lambda: soft_limits(pid)),
        "gpus": attempt(lambda: given_gpus(pid)),
    }


def soft_limits(pid: int) -> dict[str, int]:
    """The limits that a process meets; memlock in bytes, -1 is unlimited."""
    kinds = {"memlock": resource.RLIMIT_MEMLOCK, "nofile": resource.RLIMIT_NOFILE}
    return {name: resource.prlimit(pid, kind)[0] for name, kind in kinds.items()}


def bound_nodes(pid: int) -> str:
    """Nodes the process's memory policy binds to, "" when it binds to none.

    Only the first mapping is read: the policy of the task shows on every mapping that has none of
    its own, and a walk of all mappings of a model in memory takes seconds. So no more is asked for
    than its line's first two words: the kernel walks mappings until what was asked for is there.
    """
    descriptor = os.open(PROC / str(pid) / "numa_maps", os.O_RDONLY)
    try:
        first = os.read(descriptor, 128).decode(errors="replace").partition("\n")[0]
    finally:
        os.close(descriptor)
    match = BOUND.search(" ".join(first.split()[:2]))
    return match.group(1) if match else ""


def given_gpus(pid: int) -> list[str]:
    """The GPUs that CUDA_VISIBLE_DEVICES named when the process was started.

    None where the variable is not there. A process that gives itself a title, as vLLM's engine core
    and workers do, writes over its environment; the server that started them has it still.
    """
    raw = (PROC / str(pid) / "environ").read_bytes().decode(errors="replace")
    values = dict(entry.partition("=")[::2] for entry in raw.split("\0"))
    return [gpu for gpu in values.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
