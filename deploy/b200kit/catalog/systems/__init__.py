"""Operating systems as data: one file a system, read strictly, once a process.

A system is here because its apt, systemd and Python (3.10 and up) are known to do for the stages
and the vendor has packages for it (NVIDIA/gpu-driver-container ubuntu2*/install.sh and
NVIDIA/cloud-native-docs for Ubuntu and Debian 12; NVIDIA's driver installation guide for Debian
13). RHEL and its relatives are not: another package manager, other names, drivers by `dnf module`.
A run there would get halfway.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from b200kit.catalog import shipped
from b200kit.catalog.types import System
from b200kit.node.lib import documents

DIRECTORY = Path(__file__).parent


@cache
def load() -> Mapping[str, System]:
    """Every system by the name that an inventory gives it, those that are refused among them."""
    return {path.stem: _read(path) for path in sorted(DIRECTORY.glob("*.yaml"))}


def _read(path: Path) -> System:
    try:
        return documents.structure(System, shipped.read(path))
    except documents.Malformed as error:
        raise documents.Malformed(f"{path.name}: {error}") from None


def supported() -> list[System]:
    """Those that nodes may have."""
    return [system for system in load().values() if not system.refused]
