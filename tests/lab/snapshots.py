"""Disks of hosts, saved to start other hosts from: copy-on-write, in a second or two.

A saved disk is a layer that no host writes to. It is of one host name and one scenario, as a
node's identity is, and can be used by every lab, as all labs have the same addresses and keys.
It is kept under a hash of all that decides what a deployment writes: a stale one is never used.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from tests.lab import hosts, own_network
from tests.lab.mounts import remove_tree, unmount_below
from tests.lab.paths import LabError, LabPaths, host_index, lab_paths
from tests.lab.state import lab_lock, read_state, write_state

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("deploy", "templates", "inventories", "tests/lab", "tests/scenarios")
#: Layers that nobody used for this long are removed when others are saved.
KEPT_S = 24 * 3600


def sources_hash(root: Path = ROOT, sources: Sequence[str] = SOURCES) -> str:
    """Return a hash of the names and contents of all source files."""
    digest = hashlib.sha256()
    for file in _files(root, sources):
        digest.update(f"{file.relative_to(root)} {file.stat().st_mode & 0o111} ".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _files(root: Path, sources: Sequence[str]) -> Iterable[Path]:
    for source in sources:
        for file in sorted((root / source).rglob("*")):
            if file.is_file() and file.suffix != ".pyc":
                yield file


@cache
def key(label: str, base: str) -> str:
    """Return the hash under which disks are saved.

    It covers the label, the sources, how and when the base was made that the disks lie over, and
    this machine's kernel and CPUs, which a node's disk names.
    """
    parts = [label, base, sources_hash(), os.uname().release, os.cpu_count()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def layer(lab: LabPaths, label: str, name: str, scenario: str) -> Path:
    """Return where the disk of a host is saved."""
    base = f"{lab.base_stamp.read_text()} {lab.base_stamp.stat().st_mtime_ns}"
    return lab.snapshots / key(label, base) / f"{name}@{scenario}"


def missing(lab: LabPaths, label: str, scenarios: Mapping[str, str]) -> list[str]:
    """Return the hosts (name to scenario) of which no disk is saved."""
    names = [name for name in scenarios if not layer(lab, label, name, scenarios[name]).is_dir()]
    return sorted(names, key=host_index)


def saved(lab: LabPaths, scenarios: Mapping[str, str], label: str | None) -> dict[str, Path]:
    """Return the saved disks of hosts (name to scenario); none without a label."""
    if label is None:
        return {}
    found = {name: layer(lab, label, name, scenario) for name, scenario in scenarios.items()}
    there = {name: path for name, path in found.items() if path.is_dir()}
    for path in there.values():
        os.utime(path)
    return there


def save(names: Sequence[str], label: str) -> None:
    """Shut hosts down, keep their disks under a label, and take the hosts out of the lab."""
    lab = lab_paths()
    with lab_lock(lab):
        own_network.join()
        state = read_state(lab)
        entries = {host["name"]: str(host["scenario"]) for host in state.get("hosts", [])}
        strangers = sorted(set(names) - set(entries))
        if strangers:
            raise LabError(f"{', '.join(strangers)}: not in this lab, so there is no disk to save")
        _forget_unused(lab)
        with ThreadPoolExecutor(max_workers=4) as pool:
            list(pool.map(hosts.shut_down, names))
        for name in names:
            _keep(lab, name, layer(lab, label, name, entries[name]))
        others = [host for host in state["hosts"] if host["name"] not in names]
        write_state(lab, {**state, "hosts": others})


def _keep(lab: LabPaths, name: str, target: Path) -> None:
    """Make a host's disk a layer, and remove what else there is of the host."""
    host = lab.host(name)
    if (host / "layer").exists():
        raise LabError(f"{name} started from a saved disk itself: it cannot be saved")
    unmount_below(host)
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():  # in one step: a reader finds all of it, or nothing
        (host / "upper").rename(target)
    hosts.remove(lab, name)


def _forget_unused(lab: LabPaths) -> None:
    """Remove layers of other sources that nothing is mounted on and nobody used for a day."""
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    for folder in lab.snapshots.glob("*") if lab.snapshots.is_dir() else ():
        used = max((path.stat().st_mtime for path in (folder, *folder.glob("*"))), default=0)
        if folder.is_dir() and str(folder) not in mounts and time.time() - used > KEPT_S:
            remove_tree(folder)
