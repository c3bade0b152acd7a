"""Container runtimes: versions, whether they use CDI, and what CDI offers them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from b200kit.node.facts import cdi, docker
from b200kit.node.facts.cdi_support import RUNTIMES
from b200kit.node.facts.docker import PATH, number
from b200kit.node.lib.readings import absent, attempt, command

TOOLKIT_CONFIG = Path("/etc/nvidia-container-runtime/config.toml")
CONTAINERD_CONFIG = Path("/etc/containerd/config.toml")
_CRI = re.compile(
    r"""^\s*\[plugins\.['"](?:io\.containerd\.(?:grpc\.v1\.cri|cri\.v1\.runtime))['"]\]"""
)


def containers(requested: Iterable[str]) -> dict[str, Any]:
    """The CDI specifications, and the asked runtimes of those that are known."""
    readers = {"docker": docker.docker, "containerd": containerd, "podman": podman}
    return {
        "cdi": attempt(cdi.specs),
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
