"""`power-limit WATTS|default`: what every GPU may draw at most, until the next boot or reset of it.

Each GPU is asked first which limits it takes: a value that one refuses changes nothing on any. The
driver lets nobody but an administrator set it (CAP_SYS_ADMIN: NV_IS_SUSER, open-gpu-kernel-modules
kernel-open/common/inc/nv-linux.h). Exit status: 0 as asked on all, 1 with a line for each that is
not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pynvml as n  # type: ignore[import-untyped]

from b200kit.node.facts.nvml.call import words
from b200kit.node.lib.readings import is_digits

DEFAULT = "default"


class PowerLimitRefused(Exception):
    """Why a GPU does not have the limit, in one line."""


@dataclass(frozen=True)
class LimitedGpu:
    """One GPU, the limit it is to have, and those it takes, in mW."""

    index: int
    handle: Any
    limit_mw: int
    lowest_mw: int
    highest_mw: int

    @property
    def refusal(self) -> str:
        """Why it does not take that limit; empty where it does."""
        if self.lowest_mw <= self.limit_mw <= self.highest_mw:
            return ""
        takes = f"{self.lowest_mw / 1000:g} to {self.highest_mw / 1000:g} W"
        return f"GPU {self.index}: it takes {takes}, not {self.limit_mw / 1000:g}"

    def set(self) -> bool:
        """Set the limit, and read it back; whether it was another. Raises Refused."""
        if n.nvmlDeviceGetPowerManagementLimit(self.handle) == self.limit_mw:
            return False
        n.nvmlDeviceSetPowerManagementLimit(self.handle, self.limit_mw)
        kept = n.nvmlDeviceGetPowerManagementLimit(self.handle)
        if kept != self.limit_mw:
            raise PowerLimitRefused(f"it kept {kept / 1000:g} W")
        return True


def watts(word: str) -> str:
    """What is asked for: "default", or a whole number of watts."""
    if word != DEFAULT and not is_digits(word):
        raise ValueError(word)
    return word


def asked(index: int, word: str) -> LimitedGpu:
    """A GPU with the limit that is asked for."""
    handle = n.nvmlDeviceGetHandleByIndex(index)
    own = n.nvmlDeviceGetPowerManagementDefaultLimit
    limit = own(handle) if word == DEFAULT else int(word) * 1000
    return LimitedGpu(index, handle, limit, *n.nvmlDeviceGetPowerManagementLimitConstraints(handle))


def faults(word: str) -> Iterator[str]:
    """Why a GPU does not have its limit, a line each.

    None is set where one refuses the value; one that does not answer keeps no other from its limit.
    """
    gpus, count = [], n.nvmlDeviceGetCount()
    for index in range(count):
        try:
            gpus.append(asked(index, word))
        except n.NVMLError as error:
            yield f"GPU {index}: {words(error)}"
    if not count:
        yield "NVML lists no GPU"
    refused = [gpu.refusal for gpu in gpus if gpu.refusal]
    yield from refused
    for gpu in [] if refused else gpus:
        try:
            done = "set" if gpu.set() else "as it was"
            print(f"power-limit: GPU {gpu.index}: {gpu.limit_mw / 1000:g} W, {done}")
        except (n.NVMLError, PowerLimitRefused) as error:
            why = words(error) if isinstance(error, n.NVMLError) else str(error)
            yield f"GPU {gpu.index}: {why}"


def main(args: list[str]) -> int:
    """Set it on every GPU, and say of each what was done."""
    parser = argparse.ArgumentParser(prog="power-limit")
    parser.add_argument("watts", type=watts, help='watts, or "default" for each GPU\'s own')
    options = parser.parse_args(args)
    try:
        n.nvmlInit()
        found = list(faults(options.watts))
    except (n.NVMLError, OSError) as error:
        found = [words(error)]
    for line in found:
        print(f"power-limit: {line}", file=sys.stderr)
    return 1 if found else 0
