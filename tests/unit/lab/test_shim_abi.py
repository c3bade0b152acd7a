"""The stand-in's C ABI is the one nvidia-ml-py knows: layouts, version words, symbols, codes."""

from __future__ import annotations

import ast
import ctypes
import inspect
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pynvml  # type: ignore[import-untyped]
import pytest

from tests.lab import scenario_shape, shim_build

NODE = Path(__file__).resolve().parents[3] / "deploy" / "b200kit" / "node"

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


def fields_of(struct: str) -> list[str]:
    """Member names of nvidia-ml-py's class."""
    return [field[0] for field in getattr(pynvml, STRUCTS[struct])._fields_]


def c_program() -> str:
    """A C program that prints `STRUCT size`, `STRUCT.member offset size` and `STRUCT! version`."""
    lines = []
    for struct in STRUCTS:
        lines.append(f'printf("{struct} %zu\\n", sizeof({struct}));')
        lines += [
            f'printf("{struct}.{name} %zu %zu\\n", offsetof({struct}, {name}), '
            f"sizeof((({struct} *)0)->{name}));"
            for name in fields_of(struct)
        ]
    for struct, (number, _) in VERSIONS.items():
        lines.append(f'printf("{struct}! %u\\n", STRUCT_VERSION({struct}, {number}));')
    body = "\n".join(lines)
    includes = '#include <stddef.h>\n#include <stdio.h>\n#include "abi.h"\n'
    return f"{includes}int main(void) {{ {body} return 0; }}\n"


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[int]]:
    """What the C compiler makes of tests/lab/shim/abi.h."""
    folder = tmp_path_factory.mktemp("abi")
    source, program = folder / "layout.c", folder / "layout"
    source.write_text(c_program(), encoding="utf-8")
    command = ["gcc", "-std=c11", f"-I{shim_build.SOURCES}", "-o", str(program), str(source)]
    subprocess.run(command, check=True)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    rows = (line.split() for line in printed.splitlines())
    return {name: [int(number) for number in numbers] for name, *numbers in rows}


@pytest.mark.parametrize("struct", STRUCTS)
def test_struct_has_the_layout_of_nvidia_ml_py(struct: str, layout: dict[str, list[int]]) -> None:
    theirs = getattr(pynvml, STRUCTS[struct])
    assert layout[struct] == [ctypes.sizeof(theirs)]
    for name in fields_of(struct):
        member = getattr(theirs, name)
        assert layout[f"{struct}.{name}"] == [member.offset, member.size], name


@pytest.mark.parametrize("struct", VERSIONS)
def test_version_word_is_that_of_nvidia_ml_py(struct: str, layout: dict[str, list[int]]) -> None:
    assert layout[f"{struct}!"] == [getattr(pynvml, VERSIONS[struct][1])]


def test_every_versioned_struct_of_the_stand_in_is_compared() -> None:
    header = (shim_build.SOURCES / "abi.h").read_text(encoding="utf-8")
    declared = set(re.findall(r"}\s*(nvml\w+);", header)) - {"nvmlReturn_t"}
    assert declared == set(STRUCTS)


def test_every_struct_with_a_version_word_has_it_compared() -> None:
    assert {struct for struct in STRUCTS if fields_of(struct)[0] == "version"} == set(VERSIONS)


def test_return_codes_are_those_of_nvidia_ml_py() -> None:
    header = (shim_build.SOURCES / "abi.h").read_text(encoding="utf-8")
    codes = re.findall(r"(NVML_\w+) = (\d+)", header)
    assert codes
    assert {name: int(code) for name, code in codes} == {
        name: getattr(pynvml, name) for name, _ in codes
    }


def test_link_counters_are_named_after_the_field_ids_of_nvidia_ml_py() -> None:
    prefix = "NVML_FI_DEV_NVLINK_COUNT_"
    theirs = {
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
    assert {
        ours: getattr(pynvml, prefix + name) for ours, name in theirs.items()
    } == scenario_shape.LINK_COUNTERS


def pynvml_calls(source: str) -> Iterator[str]:
    """Names `nvml...` that a module takes from pynvml, whatever it imports pynvml as."""
    tree = ast.parse(source)
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "pynvml"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "pynvml":
            yield from (alias.name for alias in node.names if alias.name.startswith("nvml"))
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in names:
                if name.startswith(("nvml", "c_nvml")):
                    yield name


def symbols(function: str) -> set[str]:
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
    return found


def called_by_the_node_program() -> set[str]:
    """Every name `nvml...` or `c_nvml...` of nvidia-ml-py that the node program uses."""
    return {name for path in NODE.rglob("*.py") for name in pynvml_calls(path.read_text("utf-8"))}


def structs(name: str, done: set[str]) -> set[str]:
    """Structures of nvidia-ml-py that a name of it is, or passes to the driver, or is made of.

    A structure with two names there, such as nvmlPciInfo_t, counts once.
    """
    thing = getattr(pynvml, name, None)
    if name in done:
        return set()
    done.add(name)
    if inspect.isfunction(thing):
        text = inspect.getsource(inspect.unwrap(thing))
        inner = re.findall(r"\b(?:c_)?nvml[A-Z]\w+", text)
        return {found for name in inner for found in structs(name, done)}
    if not (inspect.isclass(thing) and issubclass(thing, (ctypes.Structure, ctypes.Union))):
        return set()
    members = [field[1].__name__ for field in getattr(thing, "_fields_", [])]
    return {thing.__name__, *(found for name in members for found in structs(name, done))}


def test_every_struct_the_node_program_passes_is_compared() -> None:
    done: set[str] = set()
    passed = {found for name in called_by_the_node_program() for found in structs(name, done)}
    assert {"c_nvmlEccSramErrorStatus_v1_t", "c_nvmlFieldValue_t", "c_nvmlValue_t"} <= passed
    assert {"c_nvmlGpuFabricInfo_v3_t", "c_nvmlRepairStatus_t", "nvmlPciInfo_t"} <= passed
    assert passed - {getattr(pynvml, name).__name__ for name in STRUCTS.values()} == set()


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
ENUM = re.compile(r"(\w+) = (\d+)")


def test_enum_values_are_those_of_nvidia_ml_py() -> None:
    sources = [path.read_text("utf-8") for path in sorted(shim_build.SOURCES.glob("*.[ch]"))]
    written = [body for text in sources for body in re.findall(r"\benum {([^}]*)}", text)]
    values = {name: int(number) for body in written for name, number in ENUM.findall(body)}
    plain = {name: number for name, number in values.items() if not name.startswith("NVML_")}
    assert plain == {name: getattr(pynvml, theirs) for name, theirs in ENUMS.items()}


def test_fabric_words_are_those_of_nvidia_ml_py() -> None:
    for words, prefix in (
        (scenario_shape.FABRIC_STATES, "NVML_GPU_FABRIC_STATE_"),
        (scenario_shape.FABRIC_HEALTH, "NVML_GPU_FABRIC_HEALTH_SUMMARY_"),
    ):
        for word, number in words.items():
            assert getattr(pynvml, prefix + theirs_for(word)) == number


def theirs_for(word: str) -> str:
    """The word in nvidia-ml-py's spelling."""
    return {"limited": "LIMITED_CAPACITY"}.get(word, word.upper().replace("-", "_"))


def test_error_words_are_those_of_nvidia_ml_py(library: Path) -> None:
    text = ctypes.CDLL(str(library)).nvmlErrorString
    text.restype = ctypes.c_char_p
    header = (shim_build.SOURCES / "abi.h").read_text(encoding="utf-8")
    codes = [int(code) for code in re.findall(r"NVML_\w+ = (\d+)", header)]
    assert all(text(code) != b"Unknown Error" for code in codes)


def test_every_nvml_function_the_node_program_calls_is_exported(library: Path) -> None:
    called = called_by_the_node_program()
    functions = {name for name in called if inspect.isfunction(getattr(pynvml, name, None))}
    assert {"nvmlInit", "nvmlDeviceGetUUID", "nvmlDeviceGetGpuFabricInfoV"} <= functions
    wanted = {symbol for name in functions for symbol in symbols(name)}
    exported = ctypes.CDLL(str(library))
    assert {symbol for symbol in wanted if not hasattr(exported, symbol)} == set()


def test_a_function_the_stand_in_lacks_would_be_noticed(library: Path) -> None:
    assert symbols("nvmlDeviceGetFanSpeed") == {"nvmlDeviceGetFanSpeed"}
    assert not hasattr(ctypes.CDLL(str(library)), "nvmlDeviceGetFanSpeed")
