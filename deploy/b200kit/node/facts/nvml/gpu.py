"""Readings of one GPU through NVML: a table of key to call, each call's error kept as its reading.

Names, units and traps: NVIDIA's nvml.h and nvidia-ml-py. A key that NVML gives no value for is
unmeasured with NVML's own words and code, such as "Not Supported (3)"; see
`named` of worker.py. What NVLink 5 counts is read by field ids, all of one link in one call; the
counters of older links (fields 161-163) are gone from Blackwell on and are not asked for.
"""

from __future__ import annotations

import ctypes
import uuid
from collections.abc import Callable
from functools import partial

import pynvml as n  # type: ignore[import-untyped]

from b200kit.node.facts.nvml.call import Handle, Reading, field, link_fields, reading, words
from b200kit.node.lib.readings import unmeasured

FIELDS = {
    "speed_mbps": 164,
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
"""Key of a link to its NVML field id. Speed in MB/s a direction; bit error rates raw (bits 0-7
exponent, 8-11 mantissa, 0xFFF no errors); the others are counts since the link trained."""
FEC_HISTORY = range(235, 251)
"""NVML field ids of the 16 bins: how often so many symbols of a block had to be corrected."""
END_OF_LINKS = (n.NVML_ERROR_NOT_SUPPORTED, n.NVML_ERROR_INVALID_ARGUMENT)
MIB = 1024 * 1024
FIELD_RECOVERY_ACTION = 230
FIELD_MEMORY_TEMPERATURE = 82
FIELD_SLOWDOWN_MARGIN = 194


def links(handle: Handle) -> list[dict[str, Reading]]:
    """Every NVLink of a GPU; raises when it has none at all (a PCIe-only board)."""
    return [
        {"link": link, "state": state, **link_details(handle, link)}
        for link, state in link_states(handle)
    ]


def link_states(handle: Handle) -> list[tuple[int, Reading]]:
    """Links by number with their state, 1 up and 0 down, until NVML knows no more of them."""
    states: list[tuple[int, Reading]] = []
    for link in range(n.NVML_NVLINK_MAX_LINKS):
        try:
            states.append((link, n.nvmlDeviceGetNvLinkState(handle, link)))
        except n.NVMLError as error:
            if error.value in END_OF_LINKS:
                if not states:
                    raise
                break
            states.append((link, unmeasured(words(error))))
    return states


def link_details(handle: Handle, link: int) -> dict[str, Reading]:
    """Version, remote end and the NVML fields of one link."""
    values = link_fields(handle, link, (*FIELDS.values(), *FEC_HISTORY))
    return {
        "version": reading(partial(n.nvmlDeviceGetNvLinkVersion, handle, link)),
        "remote_type": reading(partial(n.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)),
        **dict(zip(FIELDS, values, strict=False)),
        "fec_history": values[len(FIELDS) :],
    }


def sysfs_address(bus_id: str | bytes) -> str:
    """NVML's "00000000:8F:00.0" as sysfs writes it, "0000:8f:00.0"."""
    text = bus_id.decode() if isinstance(bus_id, bytes) else bus_id
    domain, rest = text.split(":", 1)
    return f"{int(domain, 16):04x}:{rest.lower()}"


def capability(handle: Handle) -> str:
    """Compute capability as "10.0"."""
    major, minor = n.nvmlDeviceGetCudaComputeCapability(handle)
    return f"{major}.{minor}"


def remap(handle: Handle) -> dict[str, Reading]:
    """Row remapping: counts of rows since production, and the two flags."""
    correctable, uncorrectable, pending, failure = n.nvmlDeviceGetRemappedRows(handle)
    return {
        "correctable": correctable,
        "uncorrectable": uncorrectable,
        "pending": bool(pending),
        "failure": bool(failure),
        "banks": reading(lambda: banks(handle)),
    }


def banks(handle: Handle) -> dict[str, int]:
    """Memory banks by the spare rows they have left: all ("max") down to "none"."""
    histogram = n.nvmlDeviceGetRowRemapperHistogram(handle)
    return {key: getattr(histogram, key) for key in ("max", "high", "partial", "low", "none")}


def sram(handle: Handle) -> dict[str, Reading]:
    """Uncorrectable errors of the on-chip memories, parity and SEC-DED together."""
    status = n.c_nvmlEccSramErrorStatus_v1_t()
    n.nvmlDeviceGetSramEccErrorStatus(handle, ctypes.byref(status))
    return {
        "volatile_uncorrected": status.volatileUncParity + status.volatileUncSecDed,
        "aggregate_uncorrected": status.aggregateUncParity + status.aggregateUncSecDed,
        "threshold_exceeded": bool(status.bThresholdExceeded),
    }


def repair(handle: Handle) -> dict[str, bool]:
    """Repairs that wait for a reset: of a memory channel, of a TPC."""
    channel, tpc = n.nvmlDeviceGetRepairStatus(handle)
    return {"channel_pending": bool(channel), "tpc_pending": bool(tpc)}


def inforom_valid(handle: Handle) -> bool:
    """Whether the inforom's checksums hold; only "corrupted" (14) says that they do not."""
    try:
        n.nvmlDeviceValidateInforom(handle)
    except n.NVMLError as error:
        if error.value != n.NVML_ERROR_CORRUPTED_INFOROM:
            raise
        return False
    return True


def gsp_enabled(handle: Handle) -> bool:
    """Whether the GPU's own processor runs the driver's firmware; the open modules need it."""
    # Fresh c_uints: pynvml's default arguments are objects shared by all callers and threads.
    enabled, _ = n.nvmlDeviceGetGspFirmwareMode(handle, ctypes.c_uint(), ctypes.c_uint())
    return bool(enabled)


def slowdown_margin(handle: Handle) -> Reading:
    """Margin (T.Limit, C) below which the GPU throttles, -3 on a B200; a signed field."""
    margin = field(handle, FIELD_SLOWDOWN_MARGIN)
    return ctypes.c_int(margin).value if isinstance(margin, int) else margin


def pcie(handle: Handle) -> dict[str, Reading]:
    """PCIe generation and lanes as the GPU sees them; the generation may rest lower when idle."""
    return {
        "generation": reading(lambda: n.nvmlDeviceGetCurrPcieLinkGeneration(handle)),
        "max_generation": reading(lambda: n.nvmlDeviceGetMaxPcieLinkGeneration(handle)),
        "width": reading(lambda: n.nvmlDeviceGetCurrPcieLinkWidth(handle)),
        "max_width": reading(lambda: n.nvmlDeviceGetMaxPcieLinkWidth(handle)),
        "replays": reading(lambda: n.nvmlDeviceGetPcieReplayCounter(handle)),
    }


def fabric(handle: Handle) -> dict[str, Reading]:
    """Fabric registration: structure version 3, or 2 (no summary) of drivers before 580."""
    info = n.c_nvmlGpuFabricInfo_v3_t()
    summary: Reading
    try:
        n.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
        summary = int(info.healthSummary)
    except n.NVMLError as error:
        # nvml.h does not say by which code an older driver refuses the structure.
        summary = unmeasured(words(error))
        info = n.c_nvmlGpuFabricInfo_v2_t()
        n.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    return {
        # One byte in nvml.h; nvidia-ml-py reads the padding after it, too.
        "state": int(info.state) & 0xFF,
        "status": int(info.status),
        "clique_id": int(info.cliqueId),
        "cluster_uuid": str(uuid.UUID(bytes=bytes(info.clusterUuid))),
        "health_summary": summary,
        "health_mask": int(info.healthMask),
    }


def recovery_action(handle: Handle) -> Reading:
    """What the driver asks for: 0 none, 1 reset, 2 reboot, 3 drain, 4 drain and reset, ..."""
    return field(handle, FIELD_RECOVERY_ACTION)


def uncorrected(handle: Handle, counter: int) -> int:
    """Uncorrected ECC errors: since driver load (0) or over the GPU's life (1)."""
    count: int = n.nvmlDeviceGetTotalEccErrors(
        handle, n.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, counter
    )
    return count


CALLS: dict[str, Callable[[Handle], Reading]] = {
    "uuid": lambda h: n.nvmlDeviceGetUUID(h),
    "pci_address": lambda h: sysfs_address(n.nvmlDeviceGetPciInfo(h).busId),
    "device_id": lambda h: f"{n.nvmlDeviceGetPciInfo(h).pciDeviceId >> 16:04x}",
    "serial": lambda h: n.nvmlDeviceGetSerial(h),
    "name": lambda h: n.nvmlDeviceGetName(h),
    # A fresh c_uint: pynvml's default argument is one object shared by all callers and threads.
    "module_id": lambda h: n.nvmlDeviceGetModuleId(h, ctypes.c_uint()),
    "board_part_number": lambda h: n.nvmlDeviceGetBoardPartNumber(h),
    "vbios": lambda h: n.nvmlDeviceGetVbiosVersion(h),
    "inforom": lambda h: n.nvmlDeviceGetInforomImageVersion(h),
    "gsp_firmware": lambda h: n.nvmlDeviceGetGspFirmwareVersion(h),
    "minor": lambda h: n.nvmlDeviceGetMinorNumber(h),
    "compute_capability": capability,
    "memory_total_mib": lambda h: n.nvmlDeviceGetMemoryInfo(h).total // MIB,
    "bar1_total_mib": lambda h: n.nvmlDeviceGetBAR1MemoryInfo(h).bar1Total // MIB,
    "power_limit_mw": lambda h: n.nvmlDeviceGetPowerManagementLimit(h),
    "power_default_mw": lambda h: n.nvmlDeviceGetPowerManagementDefaultLimit(h),
    "power_enforced_mw": lambda h: n.nvmlDeviceGetEnforcedPowerLimit(h),
    "power_max_mw": lambda h: n.nvmlDeviceGetPowerManagementLimitConstraints(h)[1],
    "power_min_mw": lambda h: n.nvmlDeviceGetPowerManagementLimitConstraints(h)[0],
    "power_usage_mw": lambda h: n.nvmlDeviceGetPowerUsage(h),
    "temperature_c": lambda h: n.nvmlDeviceGetTemperatureV(h, n.NVML_TEMPERATURE_GPU),
    "temperature_margin_c": lambda h: n.nvmlDeviceGetMarginTemperature(h),
    "sm_clock_max_mhz": lambda h: n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_SM),
    "mem_clock_max_mhz": lambda h: n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_MEM),
    "sm_clock_mhz": lambda h: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM),
    "mem_clock_mhz": lambda h: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_MEM),
    "persistence": lambda h: bool(n.nvmlDeviceGetPersistenceMode(h)),
    "mig": lambda h: bool(n.nvmlDeviceGetMigMode(h)[0]),
    "mig_pending": lambda h: bool(n.nvmlDeviceGetMigMode(h)[1]),
    "ecc": lambda h: bool(n.nvmlDeviceGetEccMode(h)[0]),
    "ecc_pending": lambda h: bool(n.nvmlDeviceGetEccMode(h)[1]),
    "ecc_volatile_uncorrected": lambda h: uncorrected(h, n.NVML_VOLATILE_ECC),
    "ecc_aggregate_uncorrected": lambda h: uncorrected(h, n.NVML_AGGREGATE_ECC),
    "sram": sram,
    "remap": remap,
    "repair": repair,
    "gsp_enabled": gsp_enabled,
    "inforom_valid": inforom_valid,
    "clocks_event_reasons": lambda h: n.nvmlDeviceGetCurrentClocksEventReasons(h),
    "pcie": pcie,
    "recovery_action": recovery_action,
    "slowdown_margin_c": slowdown_margin,
    "memory_temperature_c": lambda h: field(h, FIELD_MEMORY_TEMPERATURE),
    "fabric": fabric,
    "links": links,
}
"""Key of a GPU in the state to the call that reads it, cheap identity first."""
