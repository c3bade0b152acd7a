"""The process that talks to NVML, so that a call which blocks in the kernel blocks only here.

Each GPU is read by its own thread (ctypes releases the interpreter lock in a call). At the deadline
what is complete is printed and what is not is unmeasured, naming the reading that did not return.
The main thread never calls NVML.
"""

from __future__ import annotations

import argparse
import os
import re
import threading
import time
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import pynvml as n  # type: ignore[import-untyped]

from b200kit.node.facts.nvml.call import reading, words
from b200kit.node.facts.nvml.gpu import CALLS
from b200kit.node.lib import tables
from b200kit.node.lib.program import claim_stdout, emit
from b200kit.node.lib.readings import is_unmeasured, reason, unmeasured
from b200kit.node.state.not_offered import branch, not_offered

P2P_KINDS = {"read": 0, "write": 1, "nvlink": 2, "atomics": 3, "prop": 4}
"""Capability indexes as literals: pynvml's NVML_P2P_CAPS_INDEX_READ is a tuple by mistake."""
SYSTEM_KEYS = ("driver_version", "nvml_version", "cuda_driver_version", "confidential_compute")
REFUSAL = re.compile(r"\((?:2|3|13|25)\)$")
"""NVML's codes where it does not know what it is asked for: invalid argument, not supported, no
such function, other structure version. A GPU that is lost (15) is lost with any driver."""


class Collection:
    """What has been read so far; threads fill it, `document` may be taken at any moment."""

    def __init__(self, leave_out: Sequence[str] = ()) -> None:
        self.calls = {key: call for key, call in CALLS.items() if key not in leave_out}
        self.system: dict[str, Any] = {}
        self.error: str | None = None
        self.count: int | None = None
        self.gpus: dict[int, dict[str, Any]] = {}
        self.doing: dict[int, str] = {}
        self.p2p: dict[str, list[list[Any]]] = {}
        self.step = "nvmlInit"

    def run(self) -> None:
        """Read everything; meant for a thread of its own."""
        try:
            n.nvmlInit()
            self.read_system()
            self.read_gpus()
            self.read_p2p()
            self.read_confidential_compute()
        except (n.NVMLError, OSError, AttributeError) as error:
            self.error = words(error)

    def run_and_close(self) -> None:
        """The same, and no device is held open any longer."""
        self.run()
        reading(n.nvmlShutdown)

    def read_system(self) -> None:
        """Versions; the driver's own version fails loudly, the others are readings."""
        self.step = "the driver version"
        self.system = {"driver_version": n.nvmlSystemGetDriverVersion()}
        self.system["nvml_version"] = reading(n.nvmlSystemGetNVMLVersion)
        self.system["cuda_driver_version"] = reading(cuda_version)
        self.step = "the GPU count"
        self.count = int(n.nvmlDeviceGetCount())

    def read_gpus(self) -> None:
        """All GPUs at once."""
        self.step = "the GPUs"
        indexes = range(self.count or 0)
        self.gpus = {index: {"index": index} for index in indexes}
        threads = [threading.Thread(target=self.read_gpu, args=(i,), daemon=True) for i in indexes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def read_gpu(self, index: int) -> None:
        """One GPU; without a handle every key carries the reason."""
        gpu, self.doing[index] = self.gpus[index], "handle"
        handle = reading(lambda: n.nvmlDeviceGetHandleByIndex(index))
        for key, call in self.calls.items():
            self.doing[index] = key
            gpu[key] = handle if is_unmeasured(handle) else reading(partial(call, handle))

    def read_p2p(self) -> None:
        """P2P status of every ordered pair; the diagonal is null."""
        self.step = "the P2P status"
        handles = [reading(partial(n.nvmlDeviceGetHandleByIndex, i)) for i in self.gpus]
        self.p2p = {
            kind: [[p2p_status(handles, a, b, index) for b in self.gpus] for a in self.gpus]
            for kind, index in P2P_KINDS.items()
        }

    def read_confidential_compute(self) -> None:
        """Last, since nothing waits for it: a call that hangs must not cost the GPUs."""
        self.step = "the confidential computing state"
        self.system["confidential_compute"] = reading(confidential_compute)

    def document(self, timeout: float) -> dict[str, Any]:
        """The parts `nvml`, `gpus` and `p2p` of the state, complete or not."""
        late = f"NVML did not answer within {timeout:g} s"
        reason = self.error or f"{late} (waiting for {self.step})"
        if not self.system:
            return dict.fromkeys(("nvml", "gpus", "p2p"), unmeasured(reason))
        driver = self.system["driver_version"]
        system = {key: unmeasured(reason) for key in SYSTEM_KEYS} | dict(self.system)
        gpus = [named(self.gpu(index, late), driver) for index in sorted(self.gpus)]
        return {
            "nvml": named(system, driver),
            "gpus": gpus if self.count is not None else unmeasured(reason),
            "p2p": self.p2p or unmeasured(reason),
        }

    def gpu(self, index: int, late: str) -> dict[str, Any]:
        """One GPU with every key; those not reached are unmeasured."""
        have = dict(self.gpus[index])
        doing = self.doing.get(index, "handle")
        return {
            "index": index,
            **{k: have.get(k, unmeasured(f"{late} ({doing})")) for k in self.calls},
        }


def cuda_version() -> str:
    """The driver's CUDA version as "13.0"; NVML gives 13000."""
    number = n.nvmlSystemGetCudaDriverVersion_v2()
    return f"{number // 1000}.{number % 1000 // 10}"


def confidential_compute() -> bool:
    """Whether confidential computing is on.

    "Not supported" is NVML's answer where no GPU can do it (nvml.h), and there it cannot be on.
    """
    try:
        return bool(n.nvmlSystemGetConfComputeState().ccFeature)
    except n.NVMLError as error:
        if error.value != n.NVML_ERROR_NOT_SUPPORTED:
            raise
        return False


def p2p_status(handles: list[Any], a: int, b: int, index: int) -> Any:
    """Status of one ordered pair: 0 is OK."""
    if a == b:
        return None
    for handle in (handles[a], handles[b]):
        if is_unmeasured(handle):
            return handle
    return reading(lambda: n.nvmlDeviceGetP2PStatus(handles[a], handles[b], index))


def main(args: list[str]) -> int:
    """Print one line of JSON by the time-out and leave without waiting for stuck threads."""
    parser = argparse.ArgumentParser(prog="_nvml")
    parser.add_argument("--timeout", type=float, default=20.0)
    parser.add_argument("--leave-out", action="append", default=[], help="a key of a GPU")
    options = parser.parse_args(args)
    timeout = options.timeout
    out = claim_stdout()
    collection = Collection(options.leave_out)
    thread = threading.Thread(target=collection.run, daemon=True)
    deadline = time.monotonic() + timeout
    thread.start()
    thread.join(max(0.0, deadline - time.monotonic()))
    emit(out, collection.document(timeout))
    os._exit(0)


@cache
def first_branches() -> dict[str, int]:
    """Dotted key of a reading to the first driver branch that offers it."""
    table = tables.load(__package__, "since")
    return {key: int(first) for first, keys in table.items() for key in keys.values()}


def named(readings: dict[str, Any], driver: object) -> dict[str, Any]:
    """The readings of a GPU or of the system, with those named that this driver does not offer."""
    running = branch(driver) if isinstance(driver, str) else None
    if running is None:
        return readings
    for key, first in first_branches().items():
        if running < first:
            why = unmeasured(not_offered(str(driver), first))
            readings = _named(readings, key.split("."), why)
    return readings


def _named(value: Any, keys: list[str], why: dict[str, str]) -> Any:
    """A value with `why` where NVML refused what is below the keys, in each entry of a list."""
    refused = reason(value)
    if refused is not None:
        return why if not keys and REFUSAL.search(refused) else value
    if isinstance(value, list):
        return [_named(entry, keys, why) for entry in value]
    if isinstance(value, dict) and keys and keys[0] in value:
        return {**value, keys[0]: _named(value[keys[0]], keys[1:], why)}
    return value
