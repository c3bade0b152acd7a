"""Every check, by subject. Importing this package registers all, in the order they are told.

From cause to symptom: links train by themselves, over them the fabric registers the GPUs, and only
then is there peer-to-peer access.
"""

from __future__ import annotations

from deploy.core.checks import (  # isort: skip
    nvml,
    identity,
    driver,
    modules,
    services,
    nvlink,
    fabric,
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
