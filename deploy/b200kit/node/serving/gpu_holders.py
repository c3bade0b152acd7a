"""`_gpu-holders`: which processes compute on some GPUs, as JSON; only the program itself calls it.

[{"gpu": "GPU-f1e2... (0000:1b:00.0)", "process": "pid 4711 VLLM::Worker of vllm@1.service"}],
or a text that says why nobody knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pynvml as n  # type: ignore[import-untyped]

from b200kit.node.facts.nvml.call import Handle, words
from b200kit.node.lib.program import claim_stdout, emit
from b200kit.node.lib.readings import text
from b200kit.node.serving.gpu_free import Answer, GpuHolder

PROC = Path("/proc")


def main(args: list[str]) -> int:
    """Print who computes on the GPUs of these UUIDs."""
    out = claim_stdout()
    answer = holders(args)
    emit(out, answer if isinstance(answer, str) else [asdict(held) for held in answer])
    return 0


def holders(uuids: Sequence[str]) -> Answer:
    """Every process that has a context on these GPUs; a text when one GPU cannot be asked."""
    try:
        n.nvmlInit()
    except n.NVMLError as error:
        return words(error)
    found: list[GpuHolder] = []
    for uuid in uuids:
        try:
            handle = n.nvmlDeviceGetHandleByUUID(uuid)
            pids = [each.pid for each in n.nvmlDeviceGetComputeRunningProcesses(handle)]
        except n.NVMLError as error:
            return f"{uuid}: {words(error)}"
        found += [GpuHolder(_gpu(handle, uuid), process(pid)) for pid in pids]
    return found


def _gpu(handle: Handle, uuid: str) -> str:
    """A GPU as a person finds it: by UUID and place, for an index changes with every boot."""
    try:
        bus = n.nvmlDeviceGetPciInfo(handle).busId
    except n.NVMLError:
        return uuid
    address = bus.decode() if isinstance(bus, bytes) else str(bus)
    return f"{uuid} ({address.lower()[-12:]})"


def process(pid: int) -> str:
    """A process with its name and its unit, as far as /proc shows."""
    try:
        name = text(PROC / str(pid) / "comm")
        group = text(PROC / str(pid) / "cgroup").rpartition("/")[2]
    except OSError:
        # It is gone from /proc, or of another PID namespace, and the driver still counts it.
        return f"pid {pid}, which is not in /proc"
    return f"pid {pid} {name}" + (f" of {group}" if group.endswith((".service", ".scope")) else "")
