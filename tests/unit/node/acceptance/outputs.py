"""What the tools of an acceptance run print: recorded where possible, broken in each way."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[3] / "data" / "acceptance"
PEER = "device_to_device_memcpy_read_ce"


def text(name: str) -> str:
    """A file as a tool printed it."""
    return (DATA / name).read_text(encoding="utf-8")


def dcgm(change: Callable[[dict[str, Any]], None] = lambda document: None) -> str:
    """The diagnostic's document, changed."""
    document = json.loads(text("dcgm-4.6-pass.json"))
    change(document)
    return json.dumps(document)


def dcgm_test(name: str, entity: int, status: str, **more: object) -> str:
    """The same with one result of one test another."""

    def change(document: dict[str, Any]) -> None:
        for category in document["DCGM Diagnostic"]["test_categories"]:
            for test in category["tests"]:
                if test["name"] == name:
                    test["results"][entity] |= {"status": status, **more}

    return dcgm(change)


def dcgm_every(status: str) -> str:
    """The same with every result another."""
    return text("dcgm-4.6-pass.json").replace('"Pass"', f'"{status}"')


def fio(**changes: Any) -> str:
    """fio's result with keys of its one job changed."""
    document = json.loads(text("fio-3.33.json"))
    for key, value in changes.items():
        if isinstance(value, dict):
            document["jobs"][0][key.replace("_", " ")] |= value
        else:
            document["jobs"][0][key] = value
    return json.dumps(document)


def nvbandwidth(test: str, gpus: int = 8, lost: int = 0, scale: float = 1.0) -> str:
    """A matrix of nvbandwidth v0.8, as that version lays it out."""
    rows = [
        ["N/A" if r == c else f"{(740 + r + c / 10) * scale:g}" for c in range(gpus)]
        for r in range(gpus)
    ]
    one = [["55.4"] * (gpus - lost)]
    case = {"name": test, "status": "Passed", "bandwidth_matrix": rows if test == PEER else one}
    return json.dumps({"nvbandwidth": {"version": "v0.8", "testcases": [case]}})


def all_reduce(gpus: int = 8, last: float = 839.0, wrong: int = 0) -> str:
    """A table of nccl-tests 2.19.6."""
    lines = ["# nccl-tests version 2.19.6 nccl-headers=23007 nccl-library=23007"]
    lines += [f"#  Rank {n:2d} Group  0 Pid 1 on node device {n:2d}" for n in range(gpus)]
    lines += ["#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong"]
    for power, speed in {28: 640.12, 30: 723.0, 33: last}.items():
        half = f"1.0 1.0 {speed} {wrong if power == 33 else 0}"
        lines.append(f"   {1 << power} {1 << (power - 2)} float sum -1 {half} {half}")
    lines += [f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}"]
    return "\n".join([*lines, "# Avg bus bandwidth : 748.3", ""])
