"""The tools that hold the lab's nodes at their states, and one run of one: what it took."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from b200kit.report.files import stored
from tests.bench import playbook, pyinfra_deploy
from tests.bench.pair import environment
from tests.e2e import driving
from tests.lab import cgroups
from tests.lab.live import KEPT
from tests.lab.paths import lab_paths
from tests.lab.shell import run

Names = Sequence[str]
_REPORT = re.compile(r"(reports/\S+)/report\.html")
_RECAP = re.compile(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.M)
_TOTAL = re.compile(r"Grand total +(\d+) +(\S+) +(\S+) +(\S+)")


@dataclass(frozen=True)
class Tool:
    """One tool: its command for so many nodes, and how many changes what it printed says."""

    name: str
    command: Callable[[Names], list[str]]
    changes: Callable[[str, Names], int]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cost:
    """Of one run: seconds, megabytes; and a node: kB to and from it, commands, CPU seconds.

    *others_share*: how much of this machine's CPUs was taken by what belongs to neither.
    """

    wall_s: float
    cpu_s: float
    memory_mb: float
    kb_to_a_node: float
    kb_from_a_node: float
    commands_a_node: float
    cpu_s_a_node: float
    others_share: float
    changes: int


def ours(entry: str) -> Tool:
    """An entry file of b200kit; its report is removed."""
    kept = {name: str(lab_paths().own / name.lower()) for name in KEPT}
    return Tool(entry, lambda names: driving.command(entry, *_limit(names)), _ours, kept)


def _limit(names: Names) -> list[str]:
    return [word for name in names for word in ("--limit", name)]


def _ours(said: str, names: Names) -> int:
    folder = report_of(said)
    try:
        hosts = stored(folder / "summary.json")["hosts"]
    finally:
        shutil.rmtree(folder)
    return sum(hosts[name]["changes"] for name in names)


def report_of(said: str) -> Path:
    """Where a run of ours left its report."""
    found = _REPORT.search(said)
    if found is None:
        raise RuntimeError(f"no report: {said[-400:]}")
    return driving.ROOT / found[1]


def pyinfra(work: Path) -> Tool:
    """Plain pyinfra with the deploy in *work*."""
    files = [str(work / pyinfra_deploy.INVENTORY), str(work / pyinfra_deploy.DEPLOY)]

    def command(names: Names) -> list[str]:
        return [str(driving.PYINFRA), *files, "-y", *_limit(names)]

    return Tool("pyinfra", command, _pyinfra)


def _pyinfra(said: str, names: Names) -> int:
    del names
    found = _TOTAL.search(said)
    if found is None or found[3] != "-":
        raise RuntimeError(f"pyinfra failed: {said[-400:]}")
    return 0 if found[2] == "-" else int(found[2])


def ansible(program: Path, work: Path) -> Tool:
    """ansible-playbook with the playbook in *work*."""
    files = ["-i", str(work / playbook.INVENTORY), str(work / playbook.PLAYBOOK)]

    def command(names: Names) -> list[str]:
        return [str(program), *files, "--limit", ",".join(names)]

    settings = {"ANSIBLE_CONFIG": str(work / playbook.CONFIGURATION)}
    return Tool("ansible-core", command, _ansible, settings)


def _ansible(said: str, names: Names) -> int:
    rows = {name: (int(changed), bad) for name, changed, *bad in _RECAP.findall(said)}
    if set(rows) != set(names) or any(bad != ["0", "0"] for _, bad in rows.values()):
        raise RuntimeError(f"ansible-playbook failed: {said[-400:]}")
    return sum(changed for changed, _ in rows.values())


def measured(tool: Tool, names: Names, folder: Path) -> Cost:
    """One run over *names*; RuntimeError where it fails."""
    place = folder / "usage.json"
    before = [(_bytes(name), driving.cursor(name), _cpu_s(name)) for name in names]
    began, busy_s = time.monotonic(), _busy_s()
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.usage", str(place), *tool.command(names)],
        cwd=driving.ROOT, env=environment(**tool.environment), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{tool.name} ended with {done.returncode}: {done.stdout[-1000:]}")
    took_s, busy_s = time.monotonic() - began, _busy_s() - busy_s
    here = json.loads(place.read_text())
    after = [(_bytes(name), _cpu_s(name)) for name in names]
    pairs = [*zip(before, after, strict=True)]
    nodes_s = sum(b[1] - a[2] for a, b in pairs)
    return Cost(
        **here,
        kb_to_a_node=_mean([(b[0][0] - a[0][0]) / 1000 for a, b in pairs]),
        kb_from_a_node=_mean([(b[0][1] - a[0][1]) / 1000 for a, b in pairs]),
        commands_a_node=_mean(
            [driving.remote_commands(n, a[1]) for n, a in zip(names, before, strict=True)]
        ),
        cpu_s_a_node=nodes_s / len(names),
        others_share=(busy_s - here["cpu_s"] - nodes_s) / took_s / (os.cpu_count() or 1),
        changes=tool.changes(done.stdout, names),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _bytes(name: str) -> tuple[int, int]:
    """Bytes to and from a node so far, by the counters of the bridge's end of its cable."""
    [link] = json.loads(run(["ip", "-j", "-s", "link", "show", "dev", f"v-{name}"]).stdout)
    counted: dict[str, Any] = link["stats64"]
    return counted["tx"]["bytes"], counted["rx"]["bytes"]


def _cpu_s(name: str) -> float:
    """Seconds of CPU that all processes of a node have had, what it serves with included."""
    lines = (cgroups.group_dirs(name)[0] / "cpu.stat").read_text().splitlines()
    return int(dict(line.split() for line in lines)["usage_usec"]) / 1e6


def _busy_s() -> float:
    """Seconds that this machine's CPUs have worked."""
    words = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    _, _, _, idle, waiting, *_ = ticks = [int(word) for word in words]
    return (sum(ticks) - idle - waiting) / os.sysconf("SC_CLK_TCK")
