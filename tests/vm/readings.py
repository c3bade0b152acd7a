"""How each setting of the catalog is read on the machine, past the toolkit's own reading.

A setting without an entry here fails the test: whoever adds one says how a person would see it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from b200kit.catalog import load
from b200kit.node.host import settings_table

# Values other than the defaults, and settings that are not set by default: all are seen at work.
SETTINGS: Mapping[str, str | int] = {
    "hugepages": 8,
    "nokaslr": "on",
    "disable_hmm": 1,
    "profiling_admin_only": 0,
    "cstates": "c1",
    "power_limit_w": 700,
}
_SERVICE = "systemd-run --quiet --pipe --wait"
_SHELL = "bash -c"  # dash has no ulimit -u


@dataclass(frozen=True)
class Reading:
    """A shell line and what it says where the setting is in force; "{}" is the wanted value."""

    shell: str
    expected: str = "{}"


def word(text: str) -> Reading:
    """A word of the running kernel's command line."""
    return Reading(f"tr ' ' '\\n' </proc/cmdline | grep -x -F '{text}'", text)


def sysctl(path: str) -> Reading:
    """A value below /proc/sys."""
    return Reading(f"cat /proc/sys/{path}")


def limits(letter: str) -> tuple[Reading, Reading]:
    """A hard limit as a service has it, and as a person who logs in."""
    ask = f"{_SHELL} 'ulimit -H -{letter}'"
    return Reading(f"{_SERVICE} {ask}"), Reading(ask)


def option(name: str, value: str) -> Reading:
    """An option as the loaded nvidia module runs with it."""
    return Reading(f"sed -n 's/^{name}: //p' /proc/driver/nvidia/params", value)


_NODE = "python3 -I /usr/local/lib/b200kit/node.pyz observe </dev/null"
_ACS = f"""{_NODE} | python3 -c 'import json, sys
gpus = json.load(sys.stdin)["pci"]["gpus"]
print(*sorted({{str(bridge["acs"]) for gpu in gpus for bridge in gpu["bridges"]}}))'"""
_POWER = f"""{_NODE} | python3 -c 'import json, sys
print(*sorted({{gpu["power_enforced_mw"] // 1000 for gpu in json.load(sys.stdin)["gpus"]}}))'"""

# The processor says that it is Intel's (tests/lab/vm/machine.py).
READINGS: Mapping[str, tuple[Reading, ...]] = {
    "power_limit_w": (Reading(_POWER), Reading("systemctl is-active b200-power.service", "active")),
    "iommu": (word("iommu=pt"), word("intel_iommu=on")),
    "pci_realloc": (word("pci=realloc=on"),),
    "init_on_alloc": (word("init_on_alloc=0"),),
    "numa_balancing": (sysctl("kernel/numa_balancing"), word("numa_balancing=disable")),
    "swappiness": (sysctl("vm/swappiness"),),
    "zone_reclaim_mode": (sysctl("vm/zone_reclaim_mode"),),
    "max_map_count": (sysctl("vm/max_map_count"),),
    "somaxconn": (sysctl("net/core/somaxconn"),),
    "panic_on_oops": (sysctl("kernel/panic_on_oops"),),
    "panic_reboot_s": (sysctl("kernel/panic"),),
    "hugepages": (
        sysctl("vm/nr_hugepages"),
        Reading("sed -n 's/^HugePages_Total: *//p' /proc/meminfo"),
    ),
    "transparent_hugepages": (
        Reading("grep -o '\\[.*\\]' /sys/kernel/mm/transparent_hugepage/enabled", "[{}]"),
    ),
    # An emulated processor has no frequencies: there is nothing to govern, and nothing may fail.
    "governor": (Reading("ls /sys/devices/system/cpu/cpufreq 2>/dev/null", ""),),
    "memlock": limits("l"),
    "nofile": (*limits("n"), Reading(f"{_SERVICE} {_SHELL} 'ulimit -S -n'", "1024")),
    "nproc": limits("u"),
    "swap": (
        Reading("tail -n +2 /proc/swaps", ""),
        Reading("systemctl is-enabled swap.target", "masked"),
        Reading("grep -c swapfile /etc/fstab", "1"),
    ),
    "acs": (Reading("systemctl is-active b200-acs.service", "active"), Reading(_ACS, "False")),
    "nouveau": (
        Reading("lsmod | grep -c '^nouveau'", "0"),
        Reading("modprobe -b -n -v nouveau", ""),
        Reading("lsinitramfs /boot/initrd.img-$(uname -r) | grep -x etc/modprobe.d/b200kit.conf",
                "etc/modprobe.d/b200kit.conf"),
    ),
    "nokaslr": (word("nokaslr"),),
    "disable_hmm": (Reading("cat /sys/module/nvidia_uvm/parameters/uvm_disable_hmm"),),
    "profiling_admin_only": (option("RmProfilingAdminOnly", "0"),),
    "cstates": (word("processor.max_cstate=1"), word("intel_idle.max_cstate=1")),
}  # fmt: skip


def wanted() -> dict[str, settings_table.Value]:
    """Every setting that the machine is asked for."""
    return settings_table.chosen(load.load().settings, list(SETTINGS.items()))


def before_and_after() -> dict[str, str]:
    """Shell lines whose answer the run must change, by what they tell."""
    return {
        "cmdline": "cat /proc/cmdline",
        "swaps": "tail -n +2 /proc/swaps",
        "numa_balancing": "cat /proc/sys/kernel/numa_balancing",
        "max_map_count": "cat /proc/sys/vm/max_map_count",
        "memlock": f"{_SHELL} 'ulimit -H -l'",
        "driver": "ls /sys/module/nvidia /usr/sbin/dkms 2>/dev/null",
    }
