"""Container runtimes: versions, whether they use CDI, and what CDI offers them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from b200kit.node.facts import docker
from b200kit.node.facts.cdi_support import KIND, RUNTIMES
from b200kit.node.facts.docker import PATH, number
from b200kit.node.lib import documents, tables
from b200kit.node.lib.readings import absent, attempt, command

TOOLKIT_CONFIG = Path("/etc/nvidia-container-runtime/config.toml")
CONTAINERD_CONFIG = Path("/etc/containerd/config.toml")
_CRI = re.compile(
    r"""^\s*\[plugins\.['"](?:io\.containerd\.(?:grpc\.v1\.cri|cri\.v1\.runtime))['"]\]"""
)
DIRECTORIES = (Path("/etc/cdi"), Path("/var/run/cdi"))
# Branches of the driver have three digits; libraries of other origins have small versions.
_LIBRARY = re.compile(r"\.so\.([0-9]{3,}\.[0-9]+(?:\.[0-9]+)*)$")


def containers(requested: Iterable[str]) -> dict[str, Any]:
    """The CDI specifications, and the asked runtimes of those that are known."""
    readers = {"docker": docker.docker, "containerd": containerd, "podman": podman}
    return {
        "cdi": attempt(specs),
        "runtime_mode": attempt(runtime_mode),
        **{name: attempt(readers[name]) for name in requested if name in RUNTIMES},
    }


def runtime_mode() -> str | None:
    """Mode of the nvidia runtime, such as "auto"; null when its configuration names none."""
    section = ""
    for line in (absent(TOOLKIT_CONFIG) or "").splitlines():
        header = re.match(r"\s*\[([^]]+)\]", line)
        section = header[1] if header else section
        mode = re.match(r'\s*mode\s*=\s*"([^"]*)"', line)
        if mode and section == "nvidia-container-runtime":
            return mode[1]
    return None


def containerd() -> dict[str, Any] | None:
    """Version and effective configuration; null when containerd is not installed."""
    program = shutil.which("containerd", path=PATH)
    if program is None:
        return None
    return {
        "version": attempt(lambda: number(command([program, "--version"]))),
        "config": attempt(lambda: cri_settings(dump(program))),
    }


def dump(program: str) -> str:
    """The whole configuration as containerd itself understands it.

    Its own defaults where there is no file; raises OSError with its words when it refuses the file.
    """
    if not CONTAINERD_CONFIG.exists():
        return command([program, "config", "default"])
    return command([program, "--config", str(CONTAINERD_CONFIG), "config", "dump"])


def cri_settings(dumped: str) -> dict[str, Any] | None:
    """CDI's settings of the CRI plugin; null when the plugin is disabled and so not in the dump."""
    found: dict[str, Any] | None = None
    inside = False
    for line in dumped.splitlines():
        if line.lstrip().startswith("["):
            inside = bool(_CRI.match(line))
            found = {"cdi": False, "spec_dirs": []} if inside and found is None else found
        setting = re.match(r"\s*(enable_cdi|cdi_spec_dirs)\s*=\s*(.*)", line)
        if inside and setting and found is not None:
            if setting[1] == "enable_cdi":
                found["cdi"] = setting[2] == "true"
            else:
                found["spec_dirs"] = re.findall(r"""["']([^"']*)["']""", setting[2])
    return found


def podman() -> dict[str, Any] | None:
    """Version; null when podman is not installed. It has no daemon and no switch for CDI."""
    program = shutil.which("podman", path=PATH)
    if program is None:
        return None
    return {"version": attempt(lambda: number(command([program, "--version"])))}


def specs() -> dict[str, Any]:
    """Path to summary of every specification for NVIDIA's GPUs; unmeasured where it is unreadable.

    Those for other devices are left out.
    """
    files = [
        path
        for folder in DIRECTORIES
        for path in sorted(folder.glob("*"))
        if path.suffix in (".yaml", ".json")
    ]
    found = {str(path): attempt(partial(summary, path)) for path in files}
    return {path: reading for path, reading in found.items() if reading is not None}


def summary(path: Path) -> dict[str, Any] | None:
    """What one specification names; None when it is for other devices.

    Raises OSError or ValueError when it cannot be read.
    """
    with path.open(encoding="utf-8") as file:
        text = file.read(documents.LARGE + 1)
    is_json = path.suffix == ".json"
    value = documents.parse(text, documents.LARGE) if is_json else tables.parse(text)
    document = documents.structure(documents.Object, value)
    if document.get("kind") != KIND:
        return None
    devices = document.get("devices", [])
    if not isinstance(devices, list):
        raise ValueError("its devices are no list")
    edits = [document.get("containerEdits", {}), *(d.get("containerEdits", {}) for d in devices)]
    nodes, mounts, hooks = (set(_paths(edits, *keys)) for keys in _KEYS)
    return {
        "version": str(document.get("cdiVersion")),
        "devices": {str(d.get("name")): sorted(_paths([d["containerEdits"]], *_KEYS[0]))
                    for d in devices},
        "missing": sorted(p for p in nodes | mounts | hooks if not os.path.exists(p)),
        "drivers": sorted({match[1] for p in mounts if (match := _LIBRARY.search(p))}),
        "hooks": sorted({os.path.basename(p) for p in hooks}),
    }  # fmt: skip


# List of the edits, and the keys that hold the path on the host, first the one that counts.
_KEYS = (
    ("deviceNodes", "hostPath", "path"),
    ("mounts", "hostPath"),
    ("hooks", "path"),
)


def _paths(edits: list[Any], name: str, *keys: str) -> Iterator[str]:
    for edit in edits:
        for entry in edit.get(name) or [] if isinstance(edit, dict) else []:
            path = next((entry[key] for key in keys if entry.get(key)), None)
            if isinstance(path, str):
                yield path
