"""Readings of one GPU through NVML: a table of key to call, each call's error kept as its reading.

Names, units and traps: NVIDIA's nvml.h and nvidia-ml-py. A key that is not supported by the driver
is unmeasured with NVML's own words and code, such as "Not Supported (3)".
"""

from __future__ import annotations

import ctypes
import uuid
from collections.abc import Callable
from typing import Any

import pynvml as n  # type: ignore[import-untyped]

from deploy.node.readings import unmeasured

MIB = 1024 * 1024
FIELD_RECOVERY_ACTION = 230
FIELD_LINK_SPEED = 164
LINK_COUNTERS = {"recovery_success": 213, "recovery_failed": 214, "recovery_events": 215}
"""NVLink5 counters by NVML field id; 161-163 of older GPUs are not supported from Blackwell on."""
END_OF_LINKS = (n.NVML_ERROR_NOT_SUPPORTED, n.NVML_ERROR_INVALID_ARGUMENT)

Handle = Any
Reading = Any


def words(error: Exception) -> str:
    """An NVML error as "Driver Not Loaded (9)": its text and its code."""
    code = getattr(error, "value", None)
    return f"{error} ({code})" if code is not None else f"{type(error).__name__}: {error}"


def reading(call: Callable[[], Any]) -> Reading:
    """What a call returns, or why it returned nothing. Some of pynvml's texts are bytes."""
    try:
        value = call()
        return value.decode(errors="replace") if isinstance(value, bytes) else value
    except (n.NVMLError, OSError, ValueError, TypeError, AttributeError, IndexError) as error:
        return unmeasured(words(error))


def sysfs_address(bus_id: str | bytes) -> str:
    """NVML's "00000000:8F:00.0" as sysfs writes it, "0000:8f:00.0"."""
    text = bus_id.decode() if isinstance(bus_id, bytes) else bus_id
    domain, rest = text.split(":", 1)
    return f"{int(domain, 16):04x}:{rest.lower()}"


def capability(handle: Handle) -> str:
    """Compute capability as "10.0"."""
    major, minor = n.nvmlDeviceGetCudaComputeCapability(handle)
    return f"{major}.{minor}"


def field(item: Any) -> Reading:
    """One item of nvmlDeviceGetFieldValues as a number; each item has its own return code."""
    if item.nvmlReturn != n.NVML_SUCCESS:
        return unmeasured(words(n.NVMLError(item.nvmlReturn)))
    members = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
    return getattr(item.value, members[item.valueType])


def remap(handle: Handle) -> dict[str, Reading]:
    """Row remapping: counts of rows since production, and the two flags."""
    correctable, uncorrectable, pending, failure = n.nvmlDeviceGetRemappedRows(handle)
    return {
        "correctable": correctable,
        "uncorrectable": uncorrectable,
        "pending": bool(pending),
        "failure": bool(failure),
    }


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
    """Fabric registration: structure version 3, or 2 (no summary) of older drivers."""
    info = n.c_nvmlGpuFabricInfo_v3_t()
    summary: Reading
    try:
        n.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
        summary = int(info.healthSummary)
    except n.NVMLError as error:
        if error.value != n.NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
            raise
        info = n.c_nvmlGpuFabricInfo_v2_t()
        n.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
        summary = unmeasured("this driver's fabric structure (version 2) has no health summary")
    return {
        "state": int(info.state),
        "status": int(info.status),
        "clique_id": int(info.cliqueId),
        "cluster_uuid": str(uuid.UUID(bytes=bytes(info.clusterUuid))),
        "health_summary": summary,
        "health_mask": int(info.healthMask),
    }


def recovery_action(handle: Handle) -> Reading:
    """What the driver asks for: 0 none, 1 reset, 2 reboot, 3 drain, 4 drain and reset, ..."""
    return field(n.nvmlDeviceGetFieldValues(handle, [FIELD_RECOVERY_ACTION])[0])


def links(handle: Handle) -> list[dict[str, Reading]]:
    """Every NVLink of a GPU; raises when it has none at all (a PCIe-only board)."""
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
    return [{"link": link, "state": state, **link_details(handle, link)} for link, state in states]


def link_details(handle: Handle, link: int) -> dict[str, Reading]:
    """Version, speed in MB/s a direction and recovery counters of one link."""
    names = ["speed_mbps", *LINK_COUNTERS]
    ids = [(number, link) for number in (FIELD_LINK_SPEED, *LINK_COUNTERS.values())]
    try:
        values = [field(item) for item in n.nvmlDeviceGetFieldValues(handle, ids)]
    except n.NVMLError as error:
        values = [unmeasured(words(error))] * len(names)
    version = reading(lambda: n.nvmlDeviceGetNvLinkVersion(handle, link))
    return {"version": version, **dict(zip(names, values, strict=True))}


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
    "power_usage_mw": lambda h: n.nvmlDeviceGetPowerUsage(h),
    "temperature_c": lambda h: n.nvmlDeviceGetTemperatureV(h, n.NVML_TEMPERATURE_GPU),
    "sm_clock_max_mhz": lambda h: n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_SM),
    "mem_clock_max_mhz": lambda h: n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_MEM),
    "sm_clock_mhz": lambda h: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM),
    "mem_clock_mhz": lambda h: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_MEM),
    "persistence": lambda h: bool(n.nvmlDeviceGetPersistenceMode(h)),
    "mig": lambda h: bool(n.nvmlDeviceGetMigMode(h)[0]),
    "ecc": lambda h: bool(n.nvmlDeviceGetEccMode(h)[0]),
    "ecc_volatile_uncorrected": lambda h: uncorrected(h, n.NVML_VOLATILE_ECC),
    "ecc_aggregate_uncorrected": lambda h: uncorrected(h, n.NVML_AGGREGATE_ECC),
    "remap": remap,
    "clocks_event_reasons": lambda h: n.nvmlDeviceGetCurrentClocksEventReasons(h),
    "pcie": pcie,
    "recovery_action": recovery_action,
    "fabric": fabric,
    "links": links,
}
"""Key of a GPU in the state to the call that reads it, cheap identity first."""
