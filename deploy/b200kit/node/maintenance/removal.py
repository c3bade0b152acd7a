"""Take b200kit off this node, by the list of what it has put there (node/lib/installed.py).

One part after the other, each repeatable: a run that is killed is finished by the next, since the
list goes last. What the kernel command line and module options set holds until the next boot.
"""

from __future__ import annotations

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from b200kit.node.facts import system
from b200kit.node.lib import apt_output, documents, installed
from b200kit.node.lib.apt import Apt

FOLDERS = (
    "/etc/b200kit", "/etc/vllm", "/opt/vllm", "/opt/vllm-router", "/usr/local/lib/b200kit",
    "/var/cache/vllm", "/var/log/b200kit-*", "/var/lib/systemd/timers/stamp-b200-*",
)  # fmt: skip
"""Ours by their names, whatever lies in them; the list's own folder comes after them."""
_UNIT = re.compile(r"/etc/systemd/system/([^/]+\.(?:service|timer|socket|path|target|mount))")
_QUADLET = re.compile(r"/etc/containers/systemd/([^/]+)\.container")
_PACKAGED = re.compile(
    r"/lib/systemd/system/([^/@\n]+\.(?:service|timer|socket|path))$", re.MULTILINE
)
_DROP_IN = re.compile(r"/etc/systemd/system/([^/]+)\.d/[^/]+")
_SYSUSER = re.compile(r"^u (\S+)", re.MULTILINE)
_COMMANDS = {
    "update-grub": "update-grub",
    "update-initramfs": "! command -v update-initramfs >/dev/null || update-initramfs -u",
}
_LIMIT_S = 1800
_APT, _PURGE = Apt(limit_s=_LIMIT_S), ("--allow-change-held-packages", "purge")


class NotRemoved(Exception):
    """Why a part could not be removed, in one line."""


@dataclass(frozen=True)
class KeptParts:
    """What stays: files, and packages with what came with them. *also*: folders that go, too."""

    files: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class RemovalPlan:
    """What would go, by part. *stays*: packages of ours that others need; *at_boot*: what holds
    until the next boot.
    """

    units: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    put_back: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    at_boot: bool = False


def plan(kept: KeptParts) -> RemovalPlan:
    """What is there of all that was put here, and is not kept."""
    known = installed.read()
    mine = [path for path in known.files if path not in kept.files]
    back = [path for path in mine if path in known.replaced]
    going, stays = _packages(known, kept)
    named = [*FOLDERS, *kept.also, str(installed.STATE)]
    return RemovalPlan(
        units=tuple(_units(mine)),
        files=tuple(path for path in mine if os.path.lexists(path) and path not in back),
        put_back=tuple(path for path in back if os.path.lexists(_original(path))),
        packages=tuple(going),
        stays=tuple(stays),
        users=tuple(_users(mine)),
        folders=tuple(path for pattern in named for path in sorted(glob.glob(pattern))),
        at_boot=any("reboot" in known.files[path] for path in mine),
    )


def _original(path: str) -> Path:
    return installed.ORIGINALS / Path(path).relative_to("/")


def _unit(path: str) -> str:
    """The unit that a file is; empty where it is none."""
    if match := _UNIT.fullmatch(path):
        return match[1]
    match = _QUADLET.fullmatch(path)
    return f"{match[1]}.service" if match else ""


def _units(paths: Iterable[str]) -> list[str]:
    """Units whose files are there, and instances of those that are templates."""
    found = [unit for path in paths if (unit := _unit(path)) and os.path.lexists(path)]
    return [*found, *(unit for name in found if "@." in name for unit in _instances(name))]


def _instances(template: str) -> list[str]:
    pattern = template.replace("@.", "@*.")
    listed = _said("systemctl", "list-units", "--all", "--plain", "--no-legend", pattern)
    return [line.split()[0] for line in listed.splitlines() if line.split()]


def _packages(known: installed.Installed, kept: KeptParts) -> tuple[list[str], list[str]]:
    """What apt brought for us and is there, unless it came with what is kept or others need it."""
    rows = [line.split("\t") for line in system.listing().splitlines()]
    is_there = {name for name, _, status in rows if status[1:2] not in ("n", " ", "")}
    changes = [one for one in known.packages if not _names(one.asked) & {*kept.packages}]
    mine = sorted({name for one in changes for name in one.new} & is_there)
    if not _taken_along(mine) - {*mine}:
        return mine, []
    alone = [name for name in mine if not _taken_along([name]) - {*mine}]
    # What goes together must take nobody else along either.
    going = alone if not _taken_along(alone) - {*alone} else []
    return going, [name for name in mine if name not in going]


def _names(words: Iterable[str]) -> set[str]:
    return {word.partition("=")[0] for word in words}


def _taken_along(names: Sequence[str]) -> set[str]:
    if not names:
        return set()
    found = apt_output.steps(_APT.attempt("apt-get", "--simulate", *_PURGE, *names)[1])
    return {*found["Remv"], *found["Purg"]}


def _users(paths: Iterable[str]) -> list[str]:
    found: list[str] = []
    for path in paths:
        if path.startswith("/etc/sysusers.d/"):
            with suppress(OSError):
                found += _SYSUSER.findall(Path(path).read_text())
    return found


def units(kept: KeptParts) -> None:
    """Stop and disable the units."""
    names = plan(kept).units
    # What starts others goes before these.
    starters: list[str] = []
    rest: list[str] = []
    for unit in names:
        if "@." not in unit:
            (starters if unit.endswith((".timer", ".path", ".socket")) else rest).append(unit)
    for group in (starters, rest):
        if group:
            _do("systemctl", "stop", *group)
    for unit in names:
        # A generated one, or one that nothing wants, cannot be.
        _said("systemctl", "disable", "--quiet", unit)
        _said("systemctl", "reset-failed", unit)


def files(kept: KeptParts) -> None:
    """Users, then files, with what was in their place and what the kernel had, put back."""
    known, going = installed.read(), plan(kept)
    for user in going.users:
        subprocess.run(["userdel", user], capture_output=True, check=False)
        subprocess.run(["groupdel", user], capture_output=True, check=False)
    for path, value in known.values.items():
        with suppress(OSError):
            Path(path).write_text(value)
    for path in going.put_back:
        installed.copy(_original(path), Path(path))
        _original(path).unlink()
    for path in going.files:
        Path(path).unlink()
    for path in sorted(known.directories, key=len, reverse=True):
        # One that somebody else uses by now stays.
        with suppress(OSError):
            Path(path).rmdir()
    _do("systemctl", "daemon-reload")
    for unit in known.masked:
        _do("systemctl", "unmask", "--quiet", unit)
    if "swap.target" in known.masked:
        _do("swapon", "-a")
    mine = [path for path in known.files if path not in kept.files]
    due = {handler for path in mine for handler in known.files[path]}
    for handler in sorted(due & {*_COMMANDS}):
        _do("sh", "-c", _COMMANDS[handler])
    others = {each.partition(":")[2] for each in due if each.startswith(("restart:", "reload:"))}
    others |= {match[1] for path in mine if (match := _DROP_IN.fullmatch(path))}
    for unit in sorted(others - {*map(_unit, mine)}):
        # Of those that run, with what they had before.
        if "@" not in unit and _said("systemctl", "cat", unit):
            _do("systemctl", "try-restart", unit)


def packages(kept: KeptParts) -> None:
    """Release the holds, and purge what apt brought for us."""
    known, going = installed.read(), plan(kept)
    asked = {name for one in known.packages for name in (*_names(one.asked), *one.new)}
    if held := sorted(asked & {*_APT.said("apt-mark", "showhold")}):
        _APT.said("apt-mark", "unhold", *held)
    if going.packages:
        # A package of the vendor's need not stop what it started, nor what was enabled for it.
        for unit in _PACKAGED.findall(_said("dpkg-query", "--listfiles", *going.packages)):
            _said("systemctl", "disable", "--now", "--quiet", unit)
        _APT.said("apt-get", "-y", *_PURGE, *going.packages)


def folders(kept: KeptParts) -> None:
    """Our folders; the list of what was put here goes last."""
    for path in plan(kept).folders:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            Path(path).unlink(missing_ok=True)


PARTS: dict[str, Callable[[KeptParts], None]] = {
    "units": units, "files": files, "packages": packages, "folders": folders,
}  # fmt: skip
"""In their order."""


def _said(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    return done.stdout


def _do(*words: str) -> None:
    """Run a tool; raises NotRemoved with its last line."""
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
        timeout=_LIMIT_S, check=False,
    )  # fmt: skip
    if done.returncode:
        last = [*done.stdout.splitlines(), *done.stderr.splitlines(), "no reason given"]
        said = next(line for line in [*reversed(last[:-1]), last[-1]] if line.strip())
        raise NotRemoved(f"{' '.join(words[:2])}: {said.strip()}")


def main(args: list[str]) -> int:
    """Command removal: print what would go as JSON, or take one part away; stdin has what stays."""
    parser = argparse.ArgumentParser(prog="removal")
    parser.add_argument("act", choices=("plan", *PARTS))
    act = parser.parse_args(args).act
    try:
        kept = documents.structure(KeptParts, documents.request())
        if act == "plan":
            print(documents.to_bytes(plan(kept)).decode())
        else:
            PARTS[act](kept)
    except (NotRemoved, OSError, ValueError, subprocess.TimeoutExpired) as error:
        print(f"{apt_output.PREFIX}{error}", file=sys.stderr)
        return 1
    return 0
