"""The C ABI of the stand-in and of nvidia-ml-py is that of NVIDIA's nvml.h."""

from __future__ import annotations

import ctypes
import inspect
import re
import subprocess
from pathlib import Path

import pynvml  # type: ignore[import-untyped]
import pytest

from tests.lab.hardware import scenario_shape, shim_build
from tests.subtests import in_subtests
from tests.unit.lab.nvml.abi import (
    COUNT,
    ENUMS,
    LINK_COUNTERS,
    STRUCTS,
    VERSIONS,
    called_by_the_node_program,
    field_ids,
    fields_of,
    symbols,
    used_by_the_node_program,
    vendor,
)


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


@pytest.mark.process
@in_subtests("struct", STRUCTS)
def test_struct_of_the_stand_in_has_the_layout_of_nvml_h(
    struct: str, layout: dict[str, list[int]]
) -> None:
    theirs = vendor()["structs"][struct]
    assert layout[struct] == [theirs["size"]]
    assert {name: layout[f"{struct}.{name}"] for name in fields_of(struct)} == theirs["members"]
    assert layout.get(f"{struct}!") == ([theirs["version"]] if "version" in theirs else None)


#: where nvidia-ml-py reads past a member: nvmlGpuFabricState_t is one byte, then comes padding
READS_PADDING = {"nvmlGpuFabricInfo_v2_t.state": [28, 4], "nvmlGpuFabricInfo_v3_t.state": [28, 4]}


@in_subtests("struct", STRUCTS)
def test_struct_of_nvidia_ml_py_has_the_layout_of_nvml_h(struct: str) -> None:
    ours, theirs = getattr(pynvml, STRUCTS[struct]), vendor()["structs"][struct]
    assert ctypes.sizeof(ours) == theirs["size"]
    for name, place in theirs["members"].items():
        member, path = getattr(ours, name), f"{struct}.{name}"
        assert [member.offset, member.size] == READS_PADDING.get(path, place), path
    if struct in VERSIONS:
        assert getattr(pynvml, VERSIONS[struct][1]) == theirs["version"]


def test_constants_of_nvidia_ml_py_are_those_of_nvml_h() -> None:
    theirs = {name: value for name, (value, _) in vendor()["constants"].items()}
    ours = {name: getattr(pynvml, name) for name in theirs}
    assert ours == {**theirs, "NVML_P2P_CAPS_INDEX_READ": (0,)}


def test_field_ids_are_those_of_nvml_h() -> None:
    theirs = vendor()["constants"]
    assert field_ids() == {name: theirs[name][0] for name in field_ids()}


def test_only_the_number_of_links_is_not_the_same_in_all_headers() -> None:
    assert vendor()["changed"] == {"NVML_NVLINK_MAX_LINKS": [18, 36]}


def test_data_of_nvml_h_has_all_that_the_node_program_uses() -> None:
    """Renew it where this fails: see tests/unit/lab/nvml/headers.py."""
    called = {symbol for name in called_by_the_node_program() for symbol in symbols(name)}
    assert set(vendor()["functions"]) == called
    used = used_by_the_node_program("NVML_") | set(field_ids()) | set(ENUMS.values())
    assert used - set(vendor()["constants"]) == set()
    assert set(vendor()["structs"]) == set(STRUCTS)


def test_every_name_has_a_first_driver() -> None:
    branches = {"functions": [*vendor()["functions"].values()]}
    branches["structs"] = [entry["driver"] for entry in vendor()["structs"].values()]
    branches["constants"] = [branch for _, branch in vendor()["constants"].values()]
    for section, found in branches.items():
        assert set(found) <= set(vendor()["headers"]), section


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
    assert {
        ours: getattr(pynvml, COUNT + name) for ours, name in LINK_COUNTERS.items()
    } == scenario_shape.LINK_COUNTERS


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


@pytest.mark.process
def test_error_words_are_those_of_nvidia_ml_py(library: Path) -> None:
    text = ctypes.CDLL(str(library)).nvmlErrorString
    text.restype = ctypes.c_char_p
    header = (shim_build.SOURCES / "abi.h").read_text(encoding="utf-8")
    codes = [int(code) for code in re.findall(r"NVML_\w+ = (\d+)", header)]
    assert all(text(code) != b"Unknown Error" for code in codes)


@pytest.mark.process
def test_every_nvml_function_the_node_program_calls_is_exported(library: Path) -> None:
    called = called_by_the_node_program()
    functions = {name for name in called if inspect.isfunction(getattr(pynvml, name, None))}
    assert {"nvmlInit", "nvmlDeviceGetUUID", "nvmlDeviceGetGpuFabricInfoV"} <= functions
    wanted = {symbol for name in functions for symbol in symbols(name)}
    exported = ctypes.CDLL(str(library))
    assert {symbol for symbol in wanted if not hasattr(exported, symbol)} == set()


@pytest.mark.process
def test_a_function_the_stand_in_lacks_would_be_noticed(library: Path) -> None:
    assert symbols("nvmlDeviceGetFanSpeed") == {"nvmlDeviceGetFanSpeed"}
    assert not hasattr(ctypes.CDLL(str(library)), "nvmlDeviceGetFanSpeed")
