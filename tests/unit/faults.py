"""The catalogue of faults: for every check at least one that only this check catches."""

from __future__ import annotations

from deploy.core.verdict import Action
from tests.unit.states import (
    Fault,
    another_driver_wanted,
    any_driver,
    drop,
    every_gpu,
    gpu_without_nvlink,
    no_nvml,
    old_driver,
    put,
    xid,
)

NONE, MONITOR = Action.NONE, Action.MONITOR
SERVICE, RESET, REBOOT = Action.RESTART_SERVICE, Action.RESET_GPU, Action.REBOOT
CYCLE, REPLACE = Action.POWER_CYCLE, Action.REPLACE
FABRIC = ("gpus", 5, "fabric")
LINK = ("gpus", 3, "links", 7)
FM = "nvidia-fabricmanager.service"

FAULTS = [
    Fault("identity.device", "a GPU is an H100", put("2330", "pci", "gpus", 3, "device"), NONE),
    Fault("identity.pci-count", "a GPU left the PCI bus", drop("pci", "gpus", 7), CYCLE, "7 of 8"),
    Fault("identity.nvml-count", "NVML lacks a GPU", drop("gpus", 7), REBOOT, "0000:cc:00.0"),
    Fault(
        "identity.unique",
        "two GPUs of one UUID",
        put("GPU-00000000-0000-0000-0000-000000000000", "gpus", 1, "uuid"),
        NONE,
    ),
    Fault("driver.loaded", "old module", put("580.95.05", "modules", "nvidia"), REBOOT),
    Fault("driver.loaded", "no module", put(None, "modules", "nvidia"), NONE),
    Fault("driver.version", "older than the hardware", any_driver(old_driver), NONE),
    Fault("driver.version", "not the one asked for", another_driver_wanted, REBOOT),
    Fault("driver.gsp", "old GSP firmware", put("580.95.05", "gpus", 4, "gsp_firmware"), REBOOT),
    Fault(
        "packages.lockstep",
        "fabric manager of another version",
        any_driver(put("580.159.03-1", "packages", "nvidia-fabricmanager", "version")),
        NONE,
        "580.159.03",
    ),
    Fault(
        "packages.lockstep",
        "fabric manager not installed",
        any_driver(put(None, "packages", "nvidia-fabricmanager")),
        NONE,
    ),
    Fault("packages.versions", "another nvlsm", put("1-1", "packages", "nvlsm", "version"), NONE),
    Fault("packages.versions", "half done", put("iF", "packages", "nvlsm", "status"), NONE, "iF"),
    Fault("packages.held", "nvlsm not held", put(False, "packages", "nvlsm", "hold"), NONE),
    Fault("modules.loaded", "no ib_umad", put(None, "modules", "ib_umad"), SERVICE, "ib_umad"),
    Fault("modules.absent", "nouveau loaded", put(True, "modules", "nouveau"), REBOOT),
    Fault("fabric.units", "manager died", put("failed", "units", FM, "active"), SERVICE),
    Fault(
        "services.active",
        "a service is down",
        put("inactive", "units", "nvidia-persistenced.service", "active"),
        SERVICE,
    ),
    Fault("fabric.state", "in progress", put(2, *FABRIC, "state"), SERVICE, "in progress"),
    Fault("fabric.state", "not started", put(1, *FABRIC, "state"), SERVICE),
    Fault("fabric.state", "not supported", put(0, *FABRIC, "state"), SERVICE),
    Fault("fabric.status", "insufficient resources", put(23, *FABRIC, "status"), REBOOT, "GPU 5"),
    Fault("fabric.health", "unhealthy", put(2, *FABRIC, "health_summary"), RESET, "unhealthy"),
    Fault("fabric.health", "limited", put(3, *FABRIC, "health_summary"), RESET),
    Fault("fabric.mask", "degraded", put(0x81, *FABRIC, "health_mask"), RESET, "bandwidth"),
    Fault("fabric.mask", "recovering", put(0x84, *FABRIC, "health_mask"), RESET, "recovery"),
    Fault("fabric.mask", "bad route", put(0x90, *FABRIC, "health_mask"), RESET, "unhealthy"),
    Fault("fabric.mask", "access time-out", put(0x40, *FABRIC, "health_mask"), RESET, "access"),
    Fault("fabric.mask", "few NVLinks", put(0x580, *FABRIC, "health_mask"), RESET, "insufficient"),
    Fault("nvlink.links", "GPU 2 off NVLink", gpu_without_nvlink, RESET, "0 of 18 links up"),
    Fault("nvlink.links", "one link down", put(0, *LINK, "state"), RESET, "17 of 18"),
    Fault("nvlink.links", "a link not listed", drop(*LINK), RESET, "17 of 18"),
    Fault("nvlink.speed", "one slow link", put(26562, *LINK, "speed_mbps"), RESET, "NVLink 7"),
    Fault("nvlink.version", "NVLink 4", put(6, *LINK, "version"), RESET),
    Fault("nvlink.recovery", "failed recovery", put(2, *LINK, "recovery_failed"), RESET, "GPU 3"),
    Fault("p2p.read", "one pair", put(3, "p2p", "read", 1, 4), RESET, "GPU 1 to GPU 4"),
    Fault("p2p.write", "one pair", put(3, "p2p", "write", 1, 4), RESET, "GPU 1 to GPU 4"),
    Fault("p2p.nvlink", "one pair", put(5, "p2p", "nvlink", 4, 1), RESET, "GPU 4 to GPU 1"),
    Fault("memory.size", "small memory", every_gpu(163840, "memory_total_mib"), REPLACE),
    Fault("memory.bar1", "small BAR1", put(256, "gpus", 6, "bar1_total_mib"), NONE),
    Fault("ecc.enabled", "ECC off", put(False, "gpus", 6, "ecc"), RESET),
    Fault("ecc.volatile", "one error", put(1, "gpus", 6, "ecc_volatile_uncorrected"), RESET),
    Fault("ecc.aggregate", "five errors", put(5, "gpus", 6, "ecc_aggregate_uncorrected"), REPLACE),
    Fault("remap.failure", "failed remap", put(True, "gpus", 6, "remap", "failure"), REPLACE),
    Fault("remap.pending", "pending remap", put(True, "gpus", 6, "remap", "pending"), RESET),
    Fault("remap.count", "512 rows", put(512, "gpus", 6, "remap", "uncorrectable"), REPLACE),
    Fault("recovery.action", "reset asked", put(1, "gpus", 6, "recovery_action"), RESET, "reset"),
    Fault("recovery.action", "reboot asked", put(2, "gpus", 6, "recovery_action"), REBOOT),
    Fault("recovery.action", "unknown ask", put(42, "gpus", 6, "recovery_action"), MONITOR),
    Fault("xid.log", "off the bus", put([xid(79, "pid=1")], "xids"), REBOOT, "GPU 2: Xid 79"),
    Fault("xid.log", "remap failed", put([xid(64, "row")], "xids"), REPLACE),
    Fault("xid.log", "link lost", put([xid(149, "NETIR Fatal")], "xids"), REBOOT, "GPU 2"),
    Fault("xid.log", "fatal 145", put([xid(145, "RLW_REMAP Fatal")], "xids"), RESET),
    Fault("xid.log", "unheard of", put([xid(9999, "?")], "xids"), MONITOR, "unknown"),
    Fault("pcie.width", "eight lanes", put(8, "gpus", 6, "pcie", "width"), CYCLE, "8 lanes"),
    Fault("pcie.generation", "Gen3", put(3, "gpus", 6, "pcie", "max_generation"), CYCLE),
    Fault("mode.persistence", "off", put(False, "gpus", 6, "persistence"), SERVICE),
    Fault("mode.mig", "MIG on", put(True, "gpus", 6, "mig"), RESET),
    Fault("clocks.slowdown", "hot", put(0x41, "gpus", 6, "clocks_event_reasons"), CYCLE, "thermal"),
    Fault("clocks.slowdown", "brake", put(0x80, "gpus", 6, "clocks_event_reasons"), CYCLE, "brake"),
    Fault("numa.gpu", "a node without CPUs", put("", "numa", 1, "cpus"), NONE, "no CPUs"),
    Fault("numa.gpu", "no memory", put(0, "numa", 1, "memory_kib"), NONE, "no memory"),
    Fault("numa.gpu", "no such node", put(7, "pci", "gpus", 0, "numa_node"), NONE, "not exist"),
    Fault("numa.gpu", "node unknown", put(-1, "pci", "gpus", 0, "numa_node"), NONE, "-1"),
    Fault("uniform.vbios", "mixed", put("97.00.00.00.01", "gpus", 5, "vbios"), NONE, "GPU 5"),
    Fault("uniform.inforom", "mixed", put("G525.0", "gpus", 5, "inforom"), NONE),
    Fault("uniform.board", "mixed", put("692-0", "gpus", 5, "board_part_number"), NONE),
    Fault("uniform.capability", "mixed", put("10.3", "gpus", 5, "compute_capability"), NONE),
    Fault("uniform.memory", "mixed", put(183100, "gpus", 5, "memory_total_mib"), NONE),
    Fault("uniform.power", "mixed", put(700000, "gpus", 5, "power_limit_mw"), NONE),
    Fault("uniform.sm-clock", "mixed", put(1900, "gpus", 5, "sm_clock_max_mhz"), NONE),
    Fault("uniform.memory-clock", "mixed", put(3000, "gpus", 5, "mem_clock_max_mhz"), NONE),
]

DIAGNOSES = [
    Fault("nvml.available", "not loaded", no_nvml("Driver Not Loaded (9)"), REBOOT, "not loaded"),
    Fault("nvml.available", "skew", no_nvml("RM/driver mismatch (18)"), REBOOT, "two versions"),
    Fault("nvml.available", "no library", no_nvml("Not Found (12)"), NONE, "not installed"),
    Fault("nvml.gpu", "lost", put({"unmeasured": "GPU is lost (15)"}, "gpus", 2, "uuid"), CYCLE),
]
"""Faults that block without their check too, as other readings are gone; it names the cause."""
