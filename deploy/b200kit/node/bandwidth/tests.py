"""The bandwidth tests, where their tools lie, and what those print, read into one form. Pure.

NVIDIA/nvbandwidth (layout of v0.8, json_output.cpp) prints one JSON document; NVIDIA/nccl-tests
(src/util.cu) prints a table whose columns its header names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from b200kit.node.lib import documents
from b200kit.node.lib.documents import LARGE, Range

PATH = "/var/lib/b200kit/bandwidth.json"
PEER = "device_to_device_memcpy_read_ce"
TO_GPU = "host_to_device_memcpy_ce"
TO_HOST = "device_to_host_memcpy_ce"
LOCAL = "device_local_copy"
ALL_REDUCE = "all_reduce"
MIB = 1 << 20
COPY_MIB = 512
"""Buffer of a copy, asked for by name: the tool's own default has changed between versions."""
PLACES = {
    "nvbandwidth": (
        "/usr/bin/nvbandwidth",
        "/usr/local/bin/nvbandwidth",
        "/usr/local/cuda/bin/nvbandwidth",
        "/opt/nvbandwidth/nvbandwidth",
    ),
    "all_reduce_perf": (
        "/usr/bin/all_reduce_perf",
        "/usr/local/bin/all_reduce_perf",
        "/usr/local/cuda/bin/all_reduce_perf",
        "/opt/nccl-tests/build/all_reduce_perf",
    ),
}
"""Where a tool is looked for when PATH does not have it."""


@dataclass(frozen=True)
class BandwidthResult:
    """One figure: value in the unit, None where there is none; gpus by index.

    wrong: values that were, None where the tool did not verify them.
    """

    test: str
    tool: str
    tool_version: str
    bytes: int | None
    gpus: tuple[int, ...]
    subject: str
    value: Annotated[float, Range(0)] | None
    unit: Literal["GB/s"]
    wrong: int | None


@dataclass(frozen=True)
class Bandwidth:
    """The last measurement on a node, and what it holds for: bandwidth.json.

    missing: tools that are not there; failed: tests without a result, each with the reason.
    """

    schema: ClassVar[str] = "b200kit/bandwidth/1"
    most_bytes: ClassVar[int] = LARGE

    boot_id: str
    driver_version: str
    gpu_uuids: tuple[str, ...]
    results: tuple[BandwidthResult, ...]
    missing: Mapping[str, str]
    failed: Mapping[str, str]
    taken_at: str


class Unusable(ValueError):
    """Output that holds no result; the text says why."""


@dataclass(frozen=True)
class Probe:
    """One run of a tool: its arguments, "{gpus}" being their number, and its seconds at most."""

    test: str
    tool: str
    arguments: str
    timeout_s: int

    def argv(self, program: str, gpus: int) -> list[str]:
        """The command line."""
        return [program, *self.arguments.format(gpus=gpus).split()]

    def read(self, output: str) -> list[BandwidthResult]:
        """The results in what the tool printed; raises Unusable where there are none."""
        if self.tool == "nvbandwidth":
            return read_nvbandwidth(output, self.test)
        return read_all_reduce(output)


PROBES = (
    Probe(PEER, "nvbandwidth", f"-j -b {COPY_MIB} -t {PEER}", 300),
    Probe(TO_GPU, "nvbandwidth", f"-j -b {COPY_MIB} -t {TO_GPU}", 180),
    Probe(TO_HOST, "nvbandwidth", f"-j -b {COPY_MIB} -t {TO_HOST}", 180),
    Probe(LOCAL, "nvbandwidth", f"-j -b {COPY_MIB} -t {LOCAL}", 180),
    Probe(ALL_REDUCE, "all_reduce_perf", "-b 256M -e 8G -f 2 -g {gpus}", 600),
)
"""One run a test: of several in one run, a hang of the first would lose the others."""

# v0.5 to v0.8 print the first, v0.7 from inside a kernel; v0.8 also fails this assertion.
CORRUPT = re.compile(r"Invalid value when checking the pattern|ASSERT.*h_errorFlag|memcmpPattern")


def result(
    test: str, tool: str, version: str, size: int | None, gpus: list[int], value: float | None
) -> BandwidthResult:
    """One result; nvbandwidth stops at the first wrong value, so what has a speed had none."""
    if test == PEER and len(gpus) == 2:
        subject = f"GPU {gpus[0]} to GPU {gpus[1]}"
    else:
        subject = f"GPU {gpus[0]}" if len(gpus) == 1 else f"{len(gpus)} GPUs" if gpus else "node"
    return BandwidthResult(test, tool, version, size, tuple(gpus), subject, value, "GB/s", 0)


def read_nvbandwidth(output: str, test: str) -> list[BandwidthResult]:
    """Results of one test of nvbandwidth -j; one that says the data were wrong, if they were.

    None of a test that it waives, as a copy between GPUs where there is one, or none reaches
    another: whether a result is missed, the judge knows.
    """
    if CORRUPT.search(output):
        return [replace(result(test, "nvbandwidth", "", COPY_MIB * MIB, [], None), wrong=1)]
    body = _nvbandwidth_body(output)
    if "error" in body:
        raise Unusable(_line(body["error"]))
    cases = body.get("testcases")
    named = [c for c in cases if isinstance(c, dict)] if isinstance(cases, list) else []
    case = next((case for case in named if case.get("name") == test), {})
    matrix = case.get("bandwidth_matrix")
    if case.get("status") == "Waived":
        return []
    if case.get("status") != "Passed" or not isinstance(matrix, list):
        raise Unusable(f"no result: status {_line(case.get('status', 'missing'))}")
    version = _line(body.get("version", "unknown"))
    size = COPY_MIB * MIB
    cells = _cells(matrix, pairs=test == PEER)
    return [result(test, "nvbandwidth", version, size, gpus, value) for gpus, value in cells]


def _nvbandwidth_body(output: str) -> dict[str, Any]:
    """What is below "nvbandwidth" in the JSON from the first to the last brace."""
    try:
        whole = output[output.index("{") : output.rindex("}") + 1]
        document = documents.decode(documents.Object, whole, documents.LARGE)
    except ValueError:
        lines = output.strip().splitlines()
        raise Unusable(f"it printed no JSON: {_line(lines[-1]) if lines else 'nothing'}") from None
    body = document.get("nvbandwidth")
    if not isinstance(body, dict):
        raise Unusable("its JSON has no nvbandwidth")
    return body


def _cells(matrix: list[Any], pairs: bool) -> Iterator[tuple[list[int], float | None]]:
    """GPUs and value of every cell; a GPU's copy to itself is none of a matrix of pairs."""
    for row, cells in enumerate(matrix):
        if not isinstance(cells, list):
            raise Unusable("its matrix has a row that is no list")
        for column, cell in enumerate(cells):
            if not pairs:
                yield [column], _number(cell)
            elif row != column:
                yield [row, column], _number(cell)


def read_all_reduce(output: str) -> list[BandwidthResult]:
    """One result a message size: out-of-place bus bandwidth, wrong values of both placements."""
    lines = output.splitlines()
    columns = next((_columns(line) for line in lines if "busbw" in line), [])
    footer = re.search(r"^#? ?Out of bounds values\s*:\s*([0-9]+)", output, re.MULTILINE)
    rows = [line.split() for line in lines if re.match(r"\s*[0-9]+\s+[0-9]+\s", line)]
    rows = [row for row in rows if columns and len(row) >= len(columns)]
    if not rows or not footer or not {"busbw", "size"} <= set(columns):
        raise Unusable(f"it printed no whole table: {_line(_last(lines))}")
    count = len(re.findall(r"^#?\s+Rank\s+[0-9]+ ", output, re.MULTILINE))
    version = re.search(r"nccl-tests version (\S+).*nccl-library=([0-9]+)", output)
    versions = f"{version[1]}, NCCL {version[2]}" if version else "unknown"
    found = [_all_reduce_row(columns, row, versions, count) for row in rows]
    if int(footer[1]) and not any(each.wrong for each in found):
        found[-1] = replace(found[-1], wrong=int(footer[1]))
    return found


def _columns(header: str) -> list[str]:
    """Names of the columns; the sign of a comment is none, "#wrong" is one."""
    names = header.split()
    return names[1:] if names[:1] == ["#"] else names


def _all_reduce_row(
    columns: list[str], row: list[str], version: str, count: int
) -> BandwidthResult:
    """The result of one line of the table."""
    flags = [place for place, name in enumerate(columns) if name in ("#wrong", "error")]
    wrong = [_number(row[place]) for place in flags]
    checked = [number for number in wrong if number is not None]
    speed = _number(row[columns.index("busbw")])
    size = int(row[columns.index("size")])
    found = result(ALL_REDUCE, "all_reduce_perf", version, size, list(range(count)), speed)
    return replace(found, wrong=math.ceil(sum(checked)) if checked else None)


def _number(text: Any) -> float | None:
    """A number that can be a bandwidth, None for "N/A" and what is no number."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _last(lines: list[str]) -> str:
    """The last line that says something."""
    return next((line for line in reversed(lines) if line.strip(" #")), "nothing")


def _line(text: Any) -> str:
    """Anything on one line of at most 300 characters."""
    return " ".join(str(text).split())[:300]
