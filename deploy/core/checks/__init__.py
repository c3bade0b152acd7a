"""Every check, by subject. Importing this package registers all, in the order they are told.

From cause to symptom: links train by themselves, over them the fabric registers the GPUs, and only
then is there peer-to-peer access.
"""

from __future__ import annotations

from deploy.core.checks import (  # isort: skip
    nvml,
    identity,
    driver,
    packages,
    modules,
    services,
    fabric_manager,
    nics,
    nvlink,
    nvlink_errors,
    fabric,
    p2p,
    memory,
    repair,
    recovery,
    xid,
    sxid,
    bridges,
    pcie,
    modes,
    power,
    thermal,
    numa,
    kernel,
    clock,
    uniform,
    passport,
    bandwidth,
)

__all__ = [
    "bandwidth",
    "bridges",
    "clock",
    "driver",
    "fabric",
    "fabric_manager",
    "identity",
    "kernel",
    "memory",
    "modes",
    "modules",
    "nics",
    "numa",
    "nvlink",
    "nvlink_errors",
    "nvml",
    "p2p",
    "packages",
    "passport",
    "pcie",
    "power",
    "recovery",
    "repair",
    "services",
    "sxid",
    "thermal",
    "uniform",
    "xid",
]
