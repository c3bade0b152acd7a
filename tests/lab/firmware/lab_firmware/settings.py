"""Kernel settings of the simulated node: governors, huge pages, start values of sysctls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import cpulist
from .tree import Tree

HUGE_PAGE_WORDS = ("always", "madvise", "never")


def cpufreq(scenario: Mapping[str, Any]) -> Tree:
    """/sys/devices/system/cpu/cpufreq: one policy a CPU, as on Intel hosts."""
    lists = (cpulist.parse(node["cpus"]) for node in scenario["numa_nodes"])
    files: Tree = {}
    for cpu in sorted({cpu for cpus in lists for cpu in cpus}):
        files[f"policy{cpu}/affected_cpus"] = str(cpu)
        files[f"policy{cpu}/scaling_governor"] = scenario["kernel"]["governor"]
    return files


def huge_pages(scenario: Mapping[str, Any]) -> Tree:
    """Files of /sys/kernel/mm/transparent_hugepage."""
    chosen = scenario["kernel"]["transparent_hugepages"]
    words = (f"[{word}]" if word == chosen else word for word in HUGE_PAGE_WORDS)
    return {"enabled": " ".join(words)}


def sysctls(scenario: Mapping[str, Any]) -> Tree:
    """Values below /proc/sys that the scenario says."""
    kernel = scenario["kernel"]
    return {
        "kernel/numa_balancing": str(kernel["numa_balancing"]),
        "vm/nr_hugepages": str(kernel["hugepages"]),
        **{name.replace(".", "/"): str(value) for name, value in kernel["sysctls"].items()},
    }
