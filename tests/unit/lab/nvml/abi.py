"""The part of NVML's C ABI that is compared with nvidia-ml-py and with the vendor's own nvml.h."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pynvml  # type: ignore[import-untyped]
import yaml

from b200kit.node.facts.nvml import gpu

NODE = Path(__file__).resolve().parents[4] / "deploy" / "b200kit" / "node"
VENDOR = Path(__file__).resolve().parents[3] / "data" / "nvml.yaml"


@cache
def vendor() -> dict[str, Any]:
    """What nvml.h says (tests/unit/lab/nvml/headers.py)."""
    document: dict[str, Any] = yaml.safe_load(VENDOR.read_text(encoding="utf-8"))
    return document


#: our struct -> nvidia-ml-py's class
STRUCTS = {
    "nvmlMemory_t": "c_nvmlMemory_t",
    "nvmlMemory_v2_t": "c_nvmlMemory_v2_t",
    "nvmlBAR1Memory_t": "c_nvmlBAR1Memory_t",
    "nvmlUtilization_t": "c_nvmlUtilization_t",
    "nvmlRowRemapperHistogramValues_t": "c_nvmlRowRemapperHistogramValues",
    "nvmlConfComputeSystemState_t": "c_nvmlConfComputeSystemState_t",
    "nvmlSystemDriverBranchInfo_v1_t": "c_nvmlSystemDriverBranchInfo_v1_t",
    "nvmlTemperature_v1_t": "c_nvmlTemperature_v1_t",
    "nvmlMarginTemperature_v1_t": "c_nvmlMarginTemperature_v1_t",
    "nvmlRepairStatus_t": "c_nvmlRepairStatus_t",
    "nvmlNvlinkGetBwMode_v1_t": "c_nvmlNvlinkGetBwMode_v1_t",
    "nvmlPciInfo_t": "nvmlPciInfo_t",
    "nvmlProcessInfo_t": "c_nvmlProcessInfo_v3_t",
    "nvmlGpuFabricInfo_v2_t": "c_nvmlGpuFabricInfo_v2_t",
    "nvmlGpuFabricInfo_v3_t": "c_nvmlGpuFabricInfo_v3_t",
    "nvmlPlatformInfo_v2_t": "c_nvmlPlatformInfo_v2_t",
    "nvmlEccSramErrorStatus_v1_t": "c_nvmlEccSramErrorStatus_v1_t",
    "nvmlValue_t": "c_nvmlValue_t",
    "nvmlFieldValue_t": "c_nvmlFieldValue_t",
    "nvmlEventData_t": "c_nvmlEventData_t",
}
#: our versioned struct -> (its version number, nvidia-ml-py's word for it)
VERSIONS = {
    "nvmlMemory_v2_t": (2, "nvmlMemory_v2"),
    "nvmlSystemDriverBranchInfo_v1_t": (1, "SystemDriverBranchInfo_v1"),
    "nvmlTemperature_v1_t": (1, "nvmlTemperature_v1"),
    "nvmlMarginTemperature_v1_t": (1, "nvmlMarginTemperature_v1"),
    "nvmlRepairStatus_t": (1, "nvmlRepairStatus_v1"),
    "nvmlNvlinkGetBwMode_v1_t": (1, "nvmlNvlinkGetBwMode_v1"),
    "nvmlGpuFabricInfo_v2_t": (2, "nvmlGpuFabricInfo_v2"),
    "nvmlGpuFabricInfo_v3_t": (3, "nvmlGpuFabricInfo_v3"),
    "nvmlPlatformInfo_v2_t": (2, "nvmlPlatformInfo_v2"),
    "nvmlEccSramErrorStatus_v1_t": (1, "nvmlEccSramErrorStatus_v1"),
}


def version_macro(struct: str) -> str:
    """The macro of nvml.h that a structure's version member is set to."""
    name, number = struct.removesuffix("_t"), VERSIONS[struct][0]
    return name if name.endswith(f"_v{number}") else f"{name}_v{number}"


COUNT = "NVML_FI_DEV_NVLINK_COUNT_"
#: our name of a link's counter -> the end of the field's name in nvml.h
LINK_COUNTERS = {
    "malformed_packets": "MALFORMED_PACKET_ERRORS",
    "buffer_overruns": "BUFFER_OVERRUN_ERRORS",
    "receive_errors": "RCV_ERRORS",
    "receive_remote_errors": "RCV_REMOTE_ERRORS",
    "receive_general_errors": "RCV_GENERAL_ERRORS",
    "integrity_errors": "LOCAL_LINK_INTEGRITY_ERRORS",
    "transmit_discards": "XMIT_DISCARDS",
    "recovery_success": "LINK_RECOVERY_SUCCESSFUL_EVENTS",
    "recovery_failed": "LINK_RECOVERY_FAILED_EVENTS",
    "recovery_events": "LINK_RECOVERY_EVENTS",
    "effective_errors": "EFFECTIVE_ERRORS",
    "effective_ber": "EFFECTIVE_BER",
    "symbol_errors": "SYMBOL_ERRORS",
    "symbol_ber": "SYMBOL_BER",
}


def fields_of(struct: str) -> list[str]:
    """Member names of nvidia-ml-py's class."""
    return [field[0] for field in getattr(pynvml, STRUCTS[struct])._fields_]


#: enum name in the stand-in's sources -> nvidia-ml-py's name for it
ENUMS = {
    "VALUE_UINT": "NVML_VALUE_TYPE_UNSIGNED_INT",
    "VALUE_ULONGLONG": "NVML_VALUE_TYPE_UNSIGNED_LONG_LONG",
    "VALUE_INT": "NVML_VALUE_TYPE_SIGNED_INT",
    "IN_PROGRESS": "NVML_GPU_FABRIC_STATE_IN_PROGRESS",
    "COMPLETED": "NVML_GPU_FABRIC_STATE_COMPLETED",
    "P2P_OK": "NVML_P2P_STATUS_OK",
    "P2P_NOT_SUPPORTED": "NVML_P2P_STATUS_NOT_SUPPORTED",
    "P2P_PROP": "NVML_P2P_CAPS_INDEX_PROP",
    "LEVEL_INTERNAL": "NVML_TOPOLOGY_INTERNAL",
    "LEVEL_NODE": "NVML_TOPOLOGY_NODE",
    "LEVEL_SYSTEM": "NVML_TOPOLOGY_SYSTEM",
    "DL_REPLAY": "NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY",
    "DL_CRC": "NVML_FI_DEV_NVLINK_ERROR_DL_CRC",
    "LINK_SPEED": "NVML_FI_DEV_NVLINK_GET_SPEED",
    "LINK_STATE": "NVML_FI_DEV_NVLINK_GET_STATE",
    "LINK_VERSION": "NVML_FI_DEV_NVLINK_GET_VERSION",
    "TLIMIT_FIRST": "NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT",
    "TLIMIT_LAST": "NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT",
    "COUNTERS_FIRST": "NVML_FI_DEV_NVLINK_COUNT_XMIT_PACKETS",
    "COUNTERS_LAST": "NVML_FI_DEV_NVLINK_COUNT_SYMBOL_BER",
    "FEC_FIRST": "NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_0",
    "FEC_LAST": "NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_15",
    "CORRECTED": "NVML_MEMORY_ERROR_TYPE_CORRECTED",
    "UNCORRECTED": "NVML_MEMORY_ERROR_TYPE_UNCORRECTED",
    "VOLATILE": "NVML_VOLATILE_ECC",
    "AGGREGATE": "NVML_AGGREGATE_ECC",
}


def names_of_pynvml(source: str) -> Iterator[str]:
    """Names that a module takes from pynvml, whatever it imports pynvml as."""
    tree = ast.parse(source)
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "pynvml"
    }
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="pynvml", names=aliases):
                yield from (alias.name for alias in aliases)
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in imported:
                yield name
            case ast.Call(func=ast.Attribute(attr="_nvmlGetFunctionPointer"), args=[one]):
                # Called without pynvml's own wrapper, by the wrapper's structures all the same.
                yield ast.literal_eval(one)


@cache
def _names_in_the_node_program() -> frozenset[str]:
    """Every name of nvidia-ml-py that the node program uses."""
    sources = (path.read_text("utf-8") for path in NODE.rglob("*.py"))
    return frozenset(n for text in sources if "pynvml" in text for n in names_of_pynvml(text))


def used_by_the_node_program(*prefixes: str) -> set[str]:
    """Those with one of these prefixes."""
    return {name for name in _names_in_the_node_program() if name.startswith(prefixes)}


def called_by_the_node_program() -> set[str]:
    """Every function and structure of nvidia-ml-py that the node program uses."""
    return used_by_the_node_program("nvml", "c_nvml")


def field_ids() -> dict[str, int]:
    """Name of an NVML field to the number that the node program asks for."""
    counters = {COUNT + name: gpu.FIELDS[ours] for ours, name in LINK_COUNTERS.items()}
    bins = {f"{COUNT}FEC_HISTORY_{i}": number for i, number in enumerate(gpu.FEC_HISTORY)}
    return {
        "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION": gpu.FIELD_RECOVERY_ACTION,
        "NVML_FI_DEV_MEMORY_TEMP": gpu.FIELD_MEMORY_TEMPERATURE,
        "NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT": gpu.FIELD_SLOWDOWN_MARGIN,
        "NVML_FI_DEV_NVLINK_GET_SPEED": gpu.FIELDS["speed_mbps"],
        **counters,
        **bins,
    }


@cache
def symbols(function: str) -> frozenset[str]:
    """C symbols that a function of nvidia-ml-py looks up, itself or through others."""
    found: set[str] = set()
    done: set[str] = set()
    todo = [function]
    while todo:
        name = todo.pop()
        if name in done or not inspect.isfunction(getattr(pynvml, name, None)):
            continue
        done.add(name)
        text = inspect.getsource(inspect.unwrap(getattr(pynvml, name)))
        found |= set(re.findall(r"_nvmlGetFunctionPointer\([\"'](\w+)[\"']\)", text))
        todo += re.findall(r"\b(nvml[A-Z]\w+)\(", text)
    return frozenset(found)
