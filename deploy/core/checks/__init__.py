"""Every check, by subject. Importing this package registers all, in the order they are told."""

from __future__ import annotations

from deploy.core.checks import (  # isort: skip
    nvml,
    identity,
    driver,
    modules,
    services,
    fabric,
    nvlink,
    p2p,
    memory,
    recovery,
    xid,
    pcie,
    modes,
    numa,
    uniform,
)

__all__ = [
    "driver",
    "fabric",
    "identity",
    "memory",
    "modes",
    "modules",
    "numa",
    "nvlink",
    "nvml",
    "p2p",
    "pcie",
    "recovery",
    "services",
    "uniform",
    "xid",
]
