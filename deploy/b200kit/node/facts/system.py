"""Operating system: identity, packages, units, disks, sockets; each helper command runs once."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import socket
import struct
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from b200kit.node.facts import settings, storage
from b200kit.node.facts.dpkg_state import VENDOR
from b200kit.node.lib import boot_clock
from b200kit.node.lib.readings import attempt, command, is_digits, text, unmeasured

UNIT_KEYS = {
    "LoadState": "load",
    "ActiveState": "active",
    "SubState": "sub",
    "UnitFileState": "enabled",
    "Result": "result",
    "MainPID": "main_pid",
    "InvocationID": "invocation_id",
    "NRestarts": "n_restarts",
    "ExecMainStatus": "exit_status",
    # When its last start began, microseconds since the boot; 0 where none did.
    "InactiveExitTimestampMonotonic": "started_us",
    # A unit that has one is about to be started or stopped.
    "Job": "job",
}
ABSENT = ("", "n", "c")
"""dpkg's second letter for not installed and for only configuration left; all else is on disk."""
UNIT_NUMBERS = ("main_pid", "n_restarts", "exit_status", "started_us", "job")
DMI = "/sys/class/dmi/id"
"""What the firmware says the machine is (SMBIOS); both of its numbers are for root alone."""
UNSYNCHRONIZED_US = 16_000_000
"""adjtimex maxerror, us, from which systemd counts the clock as not synchronized."""


def host() -> dict[str, Any]:
    """Who this machine is and what it booted."""
    return {
        "hostname": socket.gethostname(),
        "machine_id": attempt(lambda: text("/etc/machine-id")),
        "product_uuid": attempt(lambda: text(f"{DMI}/product_uuid").lower()),
        "product_serial": attempt(lambda: text(f"{DMI}/product_serial")),
        "boot_id": attempt(lambda: text("/proc/sys/kernel/random/boot_id")),
        "uptime_s": attempt(boot_clock.seconds),
        "os": attempt(os_release),
        "kernel": platform.release(),
        "cmdline": attempt(lambda: text("/proc/cmdline")),
        "root_options": attempt(root_options),
        "grub_cmdline": attempt(settings.grub_cmdline),
        "python": platform.python_version(),
        "arch": platform.machine(),
        "clock_synchronized": attempt(clock_synchronized),
    }


def root_options() -> str:
    """Options of the root file system as it is mounted now."""
    mounted = storage.mount("/")
    if mounted is None:
        raise ValueError("nothing is mounted at /")
    return mounted["options"]


def os_release() -> dict[str, str]:
    """id, version id and pretty name of /etc/os-release."""
    release = platform.freedesktop_os_release()
    keys = {"id": "ID", "version_id": "VERSION_ID", "pretty": "PRETTY_NAME"}
    return {key: release.get(name, "") for key, name in keys.items()}


def clock_synchronized() -> bool:
    """What timedatectl calls NTPSynchronized, asked of the kernel directly."""
    timex = ctypes.create_string_buffer(512)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.adjtimex(timex) < 0:
        raise OSError(ctypes.get_errno(), "adjtimex failed")
    # struct timex: int modes (padded to 8), long offset, long freq, long maxerror
    maximum_error_us: int = struct.unpack_from("l", timex, 24)[0]
    return maximum_error_us < UNSYNCHRONIZED_US


def listing() -> str:
    """Name, version and status of every package dpkg knows, a line each, tabs between."""
    return command(["dpkg-query", "-W", "-f", "${Package}\t${Version}\t${db:Status-Abbrev}\n"])


def is_always_listed(name: str) -> bool:
    """Whether a package is always listed: the vendor's, and the kernel's that a driver build needs.

    The latter have the kernel's release in their names, which whoever asks may not know yet.
    """
    return bool(VENDOR.search(name)) or name.startswith(("linux-headers-", "linux-modules-extra-"))


def packages(requested: Iterable[str], read: Callable[[], Any] | None = None) -> Any:
    """The asked packages (null when not installed), and every one on disk that is always listed."""
    lines = read() if read else attempt(listing)
    if not isinstance(lines, str):
        return lines
    rows = (line.split("\t") for line in lines.splitlines())
    every = {row[0]: package(row[1], row[2]) for row in rows if len(row) == 3}
    installed = {name: p for name, p in every.items() if p["status"][1:2] not in ABSENT}
    listed = {name: p for name, p in installed.items() if is_always_listed(name)}
    return {**listed, **{name: installed.get(name) for name in requested}}


def package(version: str, abbreviation: str) -> dict[str, Any]:
    """One package; dpkg's "hi" is "ii" with a hold."""
    hold = abbreviation.startswith("h")
    status = "i" + abbreviation[1:] if hold else abbreviation
    return {"version": version, "status": status.strip(), "hold": hold}


def units(names: Iterable[str]) -> dict[str, Any]:
    """State of many units by one call; systemctl answers one block a unit, in order."""
    desired = list(dict.fromkeys(names))
    if not desired:
        return {}
    properties = ",".join([*UNIT_KEYS, "ControlGroup"])
    answer = attempt(lambda: command(["systemctl", "show", f"--property={properties}", *desired]))
    if not isinstance(answer, str):
        return dict.fromkeys(desired, answer)
    blocks = [unit(block) for block in answer.strip("\n").split("\n\n")]
    if len(blocks) != len(desired):
        return dict.fromkeys(desired, unmeasured("systemctl gave another number of units"))
    return dict(zip(desired, blocks, strict=True))


def unit(block: str) -> dict[str, Any]:
    """One unit; `control_group` is the path its processes are found under."""
    pairs = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
    values: dict[str, Any] = {key: pairs.get(name, "") for name, key in UNIT_KEYS.items()}
    for key in UNIT_NUMBERS:
        values[key] = int(values[key]) if is_digits(values[key]) else 0
    return {**values, "control_group": pairs.get("ControlGroup", "")}


def disks(paths: Iterable[str]) -> dict[str, Any]:
    """Bytes of the file system that holds each path."""
    return {path: attempt(partial(disk, path)) for path in paths}


def disk(path: str) -> dict[str, int]:
    """Total and free bytes; of the nearest parent where the path does not exist yet."""
    while not os.path.exists(path) and path not in ("/", ""):
        path = os.path.dirname(path)
    usage = shutil.disk_usage(path or "/")
    return {"total_bytes": usage.total, "free_bytes": usage.free}


def listening() -> list[str]:
    """Local addresses with a listening TCP socket, such as "127.0.0.1:8000"."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        lines = text(table).splitlines()[1:] if os.path.exists(table) else []
        # Most are connections; only of the others each word is looked at.
        rows = (line.split(None, 4) for line in lines if " 0A " in line)
        found |= {endpoint(row[1]) for row in rows if row[3] == "0A"}
    return sorted(found)


def endpoint(word: str) -> str:
    """The kernel's "0100007F:1F40" as "127.0.0.1:8000"; addresses are words in host byte order."""
    address, port = word.split(":")
    words = [bytes.fromhex(address[i : i + 8])[::-1] for i in range(0, len(address), 8)]
    packed = b"".join(words)
    if len(packed) == 4:
        return f"{socket.inet_ntop(socket.AF_INET, packed)}:{int(port, 16)}"
    return f"[{socket.inet_ntop(socket.AF_INET6, packed)}]:{int(port, 16)}"
