"""What a fleet costs one controller: check.py and a b200.py that changes nothing, on more and more
nodes in memory (tests/fake), by the real CLI and entry files in one process.

The machines live in the controller's process; what they take of its CPU is measured and stands
apart. A straight line is one whose cost of a further node is that of the nodes before.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from b200kit.report.files import stored
from b200kit.stages.proof import RULES
from tests.bench.figures import show
from tests.fake.connector import COST
from tests.fake.fleet import Fleet, reported
from tests.fake.machine import Machine

SIZES = (10, 100, 1000)
ENTRIES = ("check.py", "b200.py")
SEED = "seed"


@dataclass(frozen=True)
class Cost:
    """Of one run: seconds, seconds of CPU without the machines', bytes, remote commands."""

    nodes: int
    wall_s: float
    cpu_s: float
    machines_s: float
    memory_mb: float
    node_bytes: float
    report_bytes: int
    commands: float


def main() -> None:
    """Print the cost of each size, then what the last nodes cost against the first."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder))
        fleet.add(SEED)
        done = fleet.run("b200.py")
        if done.outcomes != {SEED: "live"}:
            raise RuntimeError(f"the first node did not go live: {done.stderr[-400:]}")
        for entry in ENTRIES:
            found = [_measured(fleet, entry, size) for size in SIZES]
            _show_line(entry, found)


def _measured(fleet: Fleet, entry: str, size: int) -> Cost:
    """One run over so many nodes, all of which are as the first one."""
    fleet.names = [f"n{number:04}" for number in range(size)]
    for name in fleet.names:
        if not (fleet.folder / name).exists():
            _copy(fleet, name)
    cost = _run(fleet, entry)
    show(f"{entry} {size}", wall_s=cost.wall_s, cpu_s=cost.cpu_s, machines_cpu_s=cost.machines_s,
         memory_mb=cost.memory_mb, cpu_ms_a_node=1000 * cost.cpu_s / size,
         kb_a_node=cost.node_bytes / 1000, page_kb=cost.report_bytes / 1000,
         commands_a_node=cost.commands)  # fmt: skip
    return cost


def _copy(fleet: Fleet, name: str) -> None:
    """The first node again, under a name of its own, which its rules of proof bear."""
    shutil.copytree(fleet.folder / SEED, fleet.folder / name)
    machine = Machine.load(fleet.folder / name)
    rules = json.loads(machine.text(RULES)) | {"node": name}
    machine.write(RULES, json.dumps(rules, indent=1, sort_keys=True).encode())
    machine.save()


def _run(fleet: Fleet, entry: str) -> Cost:
    place = fleet.folder / "cost"
    command, options = fleet.command(entry)
    options["env"][COST] = str(place)
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as out:
        running = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, **options)
        _, status, usage = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - began
        out.seek(0)
        folder = reported(out.read())
    if running.returncode or folder is None:
        raise RuntimeError(f"{entry} ended with {running.returncode}")
    machines_s = float(place.read_text())
    try:
        return _cost(folder, wall_s, usage.ru_utime + usage.ru_stime, machines_s, usage.ru_maxrss)
    finally:
        shutil.rmtree(folder)


def _cost(folder: Path, wall_s: float, cpu_s: float, machines_s: float, memory_kib: int) -> Cost:
    summary = stored(folder / "summary.json")
    size = len(summary["hosts"])
    return Cost(
        nodes=size,
        wall_s=wall_s,
        cpu_s=cpu_s - machines_s,
        machines_s=machines_s,
        memory_mb=memory_kib * 1024 / 1e6,
        node_bytes=sum(path.stat().st_size for path in folder.iterdir()) / size,
        report_bytes=(folder / "report.html").stat().st_size,
        commands=summary["controller"]["commands"] / size,
    )


def _show_line(entry: str, found: list[Cost]) -> None:
    """The cost of one more node, between the sizes: equal figures are a straight line."""
    for key, unit in (("cpu_s", "ms"), ("memory_mb", "kB")):
        steps = [
            1000 * (getattr(b, key) - getattr(a, key)) / (b.nodes - a.nodes)
            for a, b in pairwise(found)
        ]
        show(f"{entry} one more node", **{f"{key.split('_')[0]}_{unit}": steps})
