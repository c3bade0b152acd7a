"""What a scenario file may say: every key with its type, and the check that holds a file to it.

A *shape* is a type, a set of allowed words, a one-element list (list of that shape), a dict (a map
with exactly these keys, all optional) or a tuple of shapes (any of them). docs/lab.md says how
files extend each other. What the keys' names do not say:

- cpus: scaled (CPU lists in proportion on this machine's CPUs; nodes share one if there are
  fewer, and no layout is made of such a map) or as-written. numa_distance: 10 and 21 by default;
  numa_node -1: unknown.
- gpus.N.links: down none, all or a list; a number, or one a link as {link: number}. p2p: {peer:
  status}, both ways. fabric: once complete; another state holds from boot. lost: off the bus,
  NVML counts it, error 15. hang: NVML calls that never return. refuse: those that fail, with
  their code. bridges: root port first.
- fabric: mode other than 0 never completes. packages: those made another version at every boot.
- modules: unavailable, or forbidden by modprobe.d (blacklisted ones can be loaded).
- image: on the disk from the start. login: root, or the user ops with sudo.
- later: faults to come; cured_by includes the cures before it.

By itself: NVML says "driver not loaded" (9) until the boot after the installation, "version
mismatch" (18) after an upgrade without one. The fabric completes once a fabric manager of the
driver's version runs with nvlsm, mlx5_ib and ib_umad, until the next boot. Peers need links and a
completed fabric. NVreg_NvLinkDisable=1 takes all links down at the next boot. `nvidia-smi -r`
refuses while a daemon runs or a device file is open. Inferred: P2P status 5 without a fabric; a
fabric manager waits without nvlsm.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from tests.lab.paths import LabError

Shape: TypeAlias = "type | frozenset[str] | list[Any] | tuple[Any, ...] | dict[str, Any]"

#: Per-link counters of NVLink 5 and their NVML field ids (nvml.h, NVML_FI_DEV_NVLINK_COUNT_*).
LINK_COUNTERS: dict[str, int] = {
    "malformed_packets": 206,
    "buffer_overruns": 207,
    "receive_errors": 208,
    "receive_remote_errors": 209,
    "receive_general_errors": 210,
    "integrity_errors": 211,
    "transmit_discards": 212,
    "recovery_success": 213,
    "recovery_failed": 214,
    "recovery_events": 215,
    "effective_errors": 219,
    "effective_ber": 220,
    "symbol_errors": 221,
    "symbol_ber": 222,
}

#: Field ids of the 16 bins of the FEC history (nvml.h).
FEC_HISTORY = range(235, 251)

#: nvmlGpuFabricState_t and nvmlGpuFabricHealthSummary_t, by our words.
FABRIC_STATES = {"not-supported": 0, "not-started": 1, "in-progress": 2, "completed": 3}
FABRIC_HEALTH = {"not-supported": 0, "healthy": 1, "unhealthy": 2, "limited": 3}

#: What a PCIe link says, at either end.
LINK = dict.fromkeys(("generation", "max_generation", "width", "max_width"), int)
#: A PCIe bridge: root port, or port of a switch.
BRIDGE: dict[str, Any] = {"pcie": LINK, "acs": bool}
#: A port of a network function.
PORT: dict[str, Any] = {
    "state": frozenset({"ACTIVE", "ARMED", "INIT", "DOWN"}),
    "rate_gbps": int,
    "link_layer": frozenset({"InfiniBand", "Ethernet"}),
    "sm_disabled": bool,
}

GPU: dict[str, Any] = {
    "uuid": str,
    "serial": str,
    "pci_address": str,
    "module_id": int,
    "numa_node": int,
    "bridges": [str],
    "iommu": frozenset({"identity", "DMA", "DMA-FQ", "none"}),
    "aer": dict.fromkeys(("correctable", "nonfatal", "fatal"), int),
    "name": str,
    "device_id": str,
    "subsystem_id": str,
    "board_part_number": str,
    "gpu_part_number": str,
    "vbios": str,
    "inforom": str,
    "inforom_valid": bool,
    "gsp_enabled": bool,
    "compute_capability": [int],
    "memory": {"total_mib": int, "reserved_mib": int, "used_mib": int},
    "bar1_total_mib": int,
    "power": dict.fromkeys(
        ("limit_mw", "enforced_mw", "default_mw", "min_mw", "max_mw", "usage_mw"), int
    ),
    "clocks": dict.fromkeys(("sm_mhz", "sm_max_mhz", "mem_mhz", "mem_max_mhz"), int),
    "clocks_event_reasons": int,
    "temperature": dict.fromkeys(
        ("gpu_c", "memory_c", "margin_c", "shutdown_margin_c", "slowdown_margin_c"), int
    ),
    "pcie": dict.fromkeys(("generation", "max_generation", "width", "max_width", "replays"), int),
    "ecc": {
        "enabled": bool,
        "pending": bool,
        "volatile_corrected": int,
        "volatile_uncorrected": int,
        "aggregate_corrected": int,
        "aggregate_uncorrected": int,
    },
    "sram": {
        "volatile_parity": int,
        "volatile_secded": int,
        "aggregate_parity": int,
        "aggregate_secded": int,
        "threshold_exceeded": bool,
    },
    "remap": {
        "correctable": int,
        "uncorrectable": int,
        "pending": bool,
        "failure": bool,
        "banks": dict.fromkeys(("max", "high", "partial", "low", "none"), int),
    },
    "repair": {"channel_pending": bool, "tpc_pending": bool},
    "mig": bool,
    "mig_pending": bool,
    "recovery_action": int,
    "fabric": {
        "state": frozenset(FABRIC_STATES),
        "status": int,
        "clique_id": int,
        "cluster_uuid": str,
        "health_summary": frozenset(FABRIC_HEALTH),
        "health_mask": int,
    },
    "links": {
        "count": int,
        "down": (frozenset({"none", "all"}), [int]),
        "version": (int, dict),
        "speed_mbps": (int, dict),
        "remote_type": (int, dict),
        "fec_history": ([int], dict),
        "counters": dict.fromkeys(LINK_COUNTERS, (int, dict)),
    },
    "p2p": dict,
    "lost": bool,
    "hang": [str],
    "refuse": dict,
}

#: Keys of a GPU that belong to one board and are not given in the shared `gpu:` part.
GPU_OWN = ("uuid", "serial", "pci_address", "module_id", "numa_node", "bridges")

#: What can take a fault away, from the least on; each does what those before it do.
CURES = ("restart", "gpu-reset", "reboot", "power-cycle", "reimage", "nothing")

SCENARIO: dict[str, Any] = {
    "extends": str,
    "description": str,
    "source": str,
    "cpus": frozenset({"scaled", "as-written"}),
    "kernel_cmdline": str,
    "gpu": {key: shape for key, shape in GPU.items() if key not in GPU_OWN},
    "gpus": [GPU],
    "bridge": BRIDGE,
    "bridges": dict,
    "kernel": {
        "numa_balancing": int,
        "transparent_hugepages": frozenset({"always", "madvise", "never"}),
        "hugepages": int,
        "governor": str,
        "sysctls": dict,
        "swaps": [str],
    },
    "numa_nodes": [{"id": int, "cpus": str, "memory_gib": int}],
    "numa_distance": [[int]],
    "nics": [
        {
            "name": str,
            "pci_address": str,
            "numa_node": int,
            "device_id": str,
            "switch_management": bool,
            "vpd": bool,
            "bridges": [str],
            "port": PORT,
        }
    ],
    "fabric": {"completes": bool, "after_s": int, "mode": int},
    "fabric_manager": frozenset({"runs", "fails", "dies", "masked"}),
    "persistence_daemon": frozenset({"runs", "fails"}),
    "nvlsm": {"missing": bool, "dies": bool},
    "modules": {"unavailable": [str], "forbidden": [str]},
    "packages": dict,
    "image": {
        "login": frozenset({"root", "sudo", "sudo-password"}),
        "bare_metal": bool,
        "efi": dict,
        "files": dict,
        "script": str,
    },
    "hang": [str],
    "xids": [{"gpu": int, "code": int, "text": str, "after_s": int}],
    "later": [
        {
            "boot": int,
            "after_s": int,
            "gpus": dict,
            "fabric_manager": frozenset({"runs", "fails", "dies"}),
            "stops": [str],
            "cured_by": frozenset(CURES),
        }
    ],
}


class ScenarioError(LabError):
    """A scenario that cannot be used; the text is one line naming the file and the key."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the known word nearest to `word`, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean '{near[0]}'?)" if near else ""


def _type_error(value: object, wanted: str, where: str) -> ScenarioError:
    return ScenarioError(f"{where}: expected {wanted}, got {value!r}")


def check(value: object, shape: Shape, where: str) -> None:
    """Hold `value` to `shape`; raise ScenarioError naming `where` at the first thing wrong."""
    if isinstance(shape, tuple):
        _check_any(value, shape, where)
    elif isinstance(shape, frozenset):
        if not isinstance(value, str) or value not in shape:
            raise _type_error(value, "one of " + ", ".join(sorted(shape)), where)
    elif isinstance(shape, dict):
        _check_map(value, shape, where)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise _type_error(value, "a list", where)
        for number, item in enumerate(value):
            check(item, shape[0], f"{where}[{number}]")
    elif not isinstance(value, shape) or (shape is int and isinstance(value, bool)):
        raise _type_error(value, _article(shape), where)


def _article(kind: type) -> str:
    words = {int: "a whole number", str: "a text (in quotes)", bool: "true or false", dict: "a map"}
    return words.get(kind, kind.__name__)


def _check_any(value: object, shapes: tuple[Any, ...], where: str) -> None:
    problems: list[ScenarioError] = []
    for shape in shapes:
        try:
            check(value, shape, where)
        except ScenarioError as problem:
            problems.append(problem)
    if len(problems) == len(shapes):
        raise problems[0]


def _check_map(value: object, shape: Mapping[str, Any], where: str) -> None:
    if not isinstance(value, dict):
        raise _type_error(value, "a map", where)
    for key, item in value.items():
        if key not in shape:
            raise ScenarioError(f"{where}: unknown key '{key}'{did_you_mean(str(key), shape)}")
        check(item, shape[key], f"{where}.{key}")
