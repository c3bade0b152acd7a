"""The servers that a run measures, as this node sees them: age, kernels compiled, libraries."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from b200kit.node.facts.processes import members
from b200kit.node.lib import journal
from b200kit.node.lib.readings import attempt, command, text
from b200kit.node.serving.libraries import named
from b200kit.node.state.view import Unmeasured, reading
from b200kit.node.state.warmup_features import jit_lines

PROC = Path("/proc")
_PROPERTIES = ("InvocationID", "ExecMainStartTimestampMonotonic", "ControlGroup")
_PACKAGES = re.compile(r"(/\S*/(?:site|dist)-packages)/")


def units(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """What systemd says of these units, by name. Raises OSError or ValueError."""
    if not names:
        raise ValueError("no replica's unit is known")
    output = command(["systemctl", "show", f"--property={','.join(_PROPERTIES)}", *names])
    blocks = [
        dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        for block in output.strip("\n").split("\n\n")
    ]
    if len(blocks) != len(names):
        raise ValueError("systemctl gave another number of units")
    return dict(zip(names, blocks, strict=True))


def ages_s(names: Sequence[str]) -> Unmeasured | tuple[float, ...]:
    """Seconds since each server's process was started."""
    read = attempt(lambda: tuple(_age(name, known) for name, known in units(names).items()))
    found: Unmeasured | tuple[float, ...] = reading(read)
    return found


def _age(name: str, known: dict[str, str]) -> float:
    """systemd's time stamp is CLOCK_MONOTONIC in microseconds (systemd.directives), 0 for never."""
    started = int(known.get("ExecMainStartTimestampMonotonic") or 0)
    if not started:
        raise ValueError(f"{name} was not started")
    return round(time.clock_gettime(time.CLOCK_MONOTONIC) - started / 1e6, 1)


def compiled(names: Sequence[str]) -> Unmeasured | int:
    """Kernels that the servers say they compiled since they were started."""
    found: Unmeasured | int = reading(
        attempt(
            lambda: sum(jit_lines(journal.lines(u["InvocationID"])) for u in units(names).values())
        )
    )
    return found


def grown(before: Unmeasured | int, after: Unmeasured | int) -> Unmeasured | int:
    """How many kernels were compiled between two such readings."""
    if isinstance(before, Unmeasured):
        return before
    return after if isinstance(after, Unmeasured) else after - before


def libraries(names: Sequence[str]) -> Unmeasured | Mapping[str, str]:
    """Versions of what the servers have loaded, from the packages their memory maps point into.

    So it is what runs, in an image as in a virtual environment; one whose replicas differ reports
    all the versions.
    """
    found: Unmeasured | Mapping[str, str] = reading(attempt(lambda: named(_loaded(names))))
    return found


def _loaded(names: Sequence[str]) -> set[tuple[str, str]]:
    pids = [pid for known in units(names).values() for pid in members(known["ControlGroup"])]
    if not pids:
        raise ValueError("no replica runs")
    return {package for pid in pids for package in _packages(pid)}


def _packages(pid: int) -> Iterable[tuple[str, str]]:
    """Name and version of every package below the directories this process has mapped."""
    maps = attempt(lambda: text(PROC / str(pid) / "maps"))
    for folder in sorted(set(_PACKAGES.findall(maps))) if isinstance(maps, str) else ():
        for info in (PROC / str(pid) / "root" / folder.lstrip("/")).glob("*.dist-info"):
            name, _, version = info.name.removesuffix(".dist-info").rpartition("-")
            yield name, version
