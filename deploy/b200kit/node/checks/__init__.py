"""Every check, by subject. Importing this package registers all, in the order they are reported.

From cause to symptom, as the fabric comes up (b200kit/node/fabric/sequence.py): GPUs on the bus,
driver, modules, management port, packages, daemons; links train by themselves, over them the fabric
registers the GPUs, and only then is there peer-to-peer access.
"""

from __future__ import annotations

from importlib import import_module

from b200kit.node.checks.rows import register

ORDER = (
    "host.quarantine",
    "host.machine",
    "gpu.identity",
    "gpu.nvml",
    "host.driver",
    "nvlink.modules",
    "pcie.nics",
    "nvlink.management_port",
    "host.packages",
    "host.services",
    "nvlink.fabric_manager",
    "nvlink.links",
    "nvlink.link_errors",
    "registration",
    "nvlink.fabric",
    "nvlink.p2p",
    "memory",
    "gpu.row_remapping",
    "gpu.xid",
    "nvlink.sxid",
    "pcie.bridges",
    "pcie",
    "pcie.pcie",
    "modes",
    "gpu.modes",
    "gpu.power",
    "host.kernel",
    "host.numa",
    "host.settings",
    "host.clock",
    "host.logs",
    "host.storage",
    "serving.weights",
    "serving.precision",
    "host.firewall",
    "gpu.uniform",
    "host.passport",
    "serving.bandwidth",
    "host.containers",
    "serving.probe",
    "serving.running",
    "serving.room",
    "serving.certificates",
    "serving.placement",
    "serving.watchdog",
    "serving.proof",
)
"""Modules of this package whose import registers their checks, and groups of rows.yaml."""

for _name in ORDER:
    if "." in _name:
        import_module(f"{__name__}.{_name}")
    else:
        register(_name)
