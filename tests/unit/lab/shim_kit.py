"""What the tests of the NVML stand-in share: a configuration file, and a process that asks it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.lab.hardware.scenario import render

DRIVER = "580.126.20"

#: Runs in a process of its own, because a process loads one NVML and keeps it.
ASK = """
import ctypes, json, sys
import pynvml as n

def handle(index): return n.nvmlDeviceGetHandleByIndex(index)

def fabric(index, version=3):
    info = n.c_nvmlGpuFabricInfo_v3_t() if version == 3 else n.c_nvmlGpuFabricInfo_v2_t()
    n.nvmlDeviceGetGpuFabricInfoV(handle(index), ctypes.byref(info))
    summary = getattr(info, "healthSummary", None)
    return [info.state & 0xFF, info.status, info.cliqueId, info.healthMask, summary]

def fabric_with_word(word):
    info = n.c_nvmlGpuFabricInfo_v3_t()
    info.version = word
    n.nvmlDeviceGetGpuFabricInfoV(handle(0), ctypes.byref(info))

def links(index):
    return [n.nvmlDeviceGetNvLinkState(handle(index), link) for link in range(18)]

def fields(index, *ids):
    members = {1: "uiVal", 3: "ullVal", 5: "siVal"}
    read = n.nvmlDeviceGetFieldValues(handle(index), list(ids))
    return [getattr(v.value, members[v.valueType]) if v.nvmlReturn == 0 else f"error {v.nvmlReturn}"
            for v in read]

def p2p(index, kind=2):
    count = n.nvmlDeviceGetCount()
    return [None if j == index else n.nvmlDeviceGetP2PStatus(handle(index), handle(j), kind)
            for j in range(count)]

def answer(expression):
    try:
        return eval(expression)
    except n.NVMLError as error:
        return f"error {error.value}"

answers = [answer("n.nvmlInit()"), *map(answer, sys.argv[1:])]
print(json.dumps(answers))
"""


def write_conf(
    path: Path,
    facts: dict[str, str],
    kernel: str | None = DRIVER,
    *,
    fabric_done: bool = True,
    lines: str = "",
) -> Path:
    """A configuration file beside which the fabric manager has (or has not) done its work."""
    marker = path.with_suffix(".fabric")
    if fabric_done:
        marker.touch()
    head = [f"kernel.version={kernel}"] if kernel else []
    head += [f"fabric.marker={marker}", f"persistence.marker={path}.persistence"]
    body = [f"{key}={value}" for key, value in facts.items()]
    path.write_text("\n".join([*head, *body, lines]) + "\n", encoding="utf-8")
    return path


def facts(scenario: str = "healthy") -> dict[str, str]:
    """The NVML facts of a scenario."""
    nvml: dict[str, str] = render(scenario, 2)["nvml"]
    return nvml


def start(library: Path, conf: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the stand-in where the loader looks first."""
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(library.parent),
        "B200_LAB_NVML_CONF": str(conf),
    }
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False
    )


def ask(library: Path, conf: Path, *expressions: str) -> list[Any]:
    """What the real nvidia-ml-py answers to each expression; nvmlInit's answer comes first."""
    done = start(library, conf, "-c", ASK, *expressions)
    assert done.returncode == 0, done.stderr
    answers: list[Any] = json.loads(done.stdout)
    return answers
