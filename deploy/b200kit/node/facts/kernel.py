"""Kernel settings that cost inference time or break it: NUMA balancing, huge pages, governors."""

from __future__ import annotations

import re
import resource
from collections import Counter
from pathlib import Path
from typing import Any

from b200kit.node.facts import settings
from b200kit.node.lib.readings import absent, attempt, text

SYS = Path("/sys")
PROC = Path("/proc")
CHOSEN = re.compile(r"\[([A-Za-z0-9_]+)\]")


def kernel(
    ask: dict[str, Any] | None = None, known: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Every setting, each read on its own; `ask` names sysctls and module parameters.

    *known*: what `slow` read a while ago.
    """
    return {
        "tainted": attempt(lambda: int(text(PROC / "sys/kernel/tainted"))),
        "numa_balancing": attempt(numa_balancing),
        "transparent_hugepages": attempt(transparent_hugepages),
        "hugepages": attempt(lambda: int(text(PROC / "sys/vm/nr_hugepages"))),
        "memlock_bytes": attempt(lambda: resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]),
        "driver_options": attempt(driver_options),
        **settings.requested(ask or {}),
        **(known or slow()),
    }


def slow() -> dict[str, Any]:
    """Two files a CPU, and a program."""
    return {"governors": attempt(governors), "limits": attempt(settings.limits)}


def numa_balancing() -> int | None:
    """0 off, 1 on, 2 for tiered memory; null for a kernel that cannot do it."""
    value = absent(PROC / "sys/kernel/numa_balancing")
    return None if value is None else int(value)


def transparent_hugepages() -> str | None:
    """The word in brackets of "always [madvise] never"; null for a kernel without them."""
    value = absent(SYS / "kernel/mm/transparent_hugepage/enabled")
    if value is None:
        return None
    match = CHOSEN.search(value)
    if not match:
        raise ValueError(f"no word is chosen in {value!r}")
    return match[1]


def governors() -> dict[str, int]:
    """How many CPUs each cpufreq governor rules, {} without cpufreq.

    Two small files a policy. A policy is a core's clock domain: one a CPU on Intel hosts.
    """
    found: Counter[str] = Counter()
    for policy in (SYS / "devices/system/cpu/cpufreq").glob("policy*"):
        found[text(policy / "scaling_governor")] += len(text(policy / "affected_cpus").split())
    return dict(sorted(found.items()))


def driver_options() -> dict[str, str] | None:
    """The nvidia driver's options as it runs with them; null when it is not loaded.

    Lines "NvLinkDisable: 0"; texts stand in quotes. Names are modprobe's without NVreg_.
    """
    content = absent(PROC / "driver/nvidia/params")
    if content is None:
        return None
    pairs = (line.partition(":") for line in content.splitlines())
    return {name.strip(): value.strip().strip('"') for name, colon, value in pairs if colon}
