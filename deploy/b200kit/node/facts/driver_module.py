"""For which kernels the nvidia module is built, and which kernel would boot next.

DKMS builds a module for one kernel at a time, and skips a kernel whose headers are missing without
an error, so a node can have the driver's packages whole and still boot without a driver.

grub-mkconfig writes entries as `menuentry 'TITLE' ... $menuentry_id_option 'ID' {` within submenus
and the default as `set default="0"`, or as "${saved_entry}" where grubenv decides. A default is an
index, a title or an id, with ">" between a submenu and its entry (GRUB manual, "default").
"""

from __future__ import annotations

import platform
import re
import shlex
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from b200kit.node.lib.readings import attempt, command, is_digits, unmeasured

ROOT = Path("/")
_FILES = ("nvidia.ko", "nvidia-current.ko", "nvidia-current-open.ko")
_ENDS = ("", ".xz", ".zst", ".gz")
# In depmod's order: what was added to a kernel hides what came with it.
_FOLDERS = (
    "updates/dkms",
    "updates",
    "extra",
    "extra/nvidia",
    "kernel/nvidia*",
    "kernel/drivers/video",
    "kernel/drivers/video/nvidia*",
)
_GRUB = ("boot/grub/grub.cfg", "boot/grub2/grub.cfg")
_OPENS = re.compile(r"^\s*(menuentry|submenu)\s+(.*)\{\s*$")
_LINUX = re.compile(r"^\s*linux(?:efi|16)?\s+(\S+)")
_DEFAULT = re.compile(r"""^\s*set default=(["']?)(.*)\1\s*$""")
_ID = ("$menuentry_id_option", "--id")
_DEPTH = 8


def driver_module() -> dict[str, Any]:
    """The kernel that runs, the module's version by kernel, and the kernel that boots next."""
    return {
        "running_kernel": platform.release(),
        "built_for": attempt(built_for),
        "default_kernel": attempt(default_kernel),
    }


def built_for() -> dict[str, Any]:
    """Kernel to the module's version; null for a kernel that has none."""
    root = ROOT / "lib/modules"
    kernels = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    return {kernel.name: attempt(partial(version, kernel)) for kernel in kernels}


def version(kernel: Path) -> str | None:
    """Version of the module that modprobe would take for one kernel; OSError when it is unknown."""
    path = module_file(kernel)
    if path is None:
        return None
    output = command(["modinfo", "-F", "version", str(path)]).split()
    if not output:
        raise ValueError(f"{path} has no version")
    return output[0]


def module_file(kernel: Path) -> Path | None:
    """The module's file below a kernel's folder, whatever it is called and packed with."""
    names = [f"{name}{end}" for name in _FILES for end in _ENDS]
    for folder in _FOLDERS:
        for place in sorted(kernel.glob(folder)):
            for name in names:
                if (place / name).is_file():
                    return place / name
    return None


def default_kernel() -> Any:
    """Release of the kernel that GRUB would boot; unmeasured where GRUB's files do not say."""
    for name in _GRUB:
        config = ROOT / name
        if config.is_file():
            environment = config.with_name("grubenv")
            saved = environment.read_text("utf-8", "replace") if environment.is_file() else ""
            return booted_next(config.read_text("utf-8", "replace"), saved)
    return unmeasured("there is no grub.cfg")


def boot() -> dict[str, Any]:
    """Whether /boot is a file system of its own, and the largest initramfs on it in bytes."""
    return {
        "own_file_system": attempt(own_file_system),
        "largest_initramfs_bytes": attempt(largest_initramfs),
    }


def own_file_system() -> bool:
    """Whether /boot is mounted; false also where there is none."""
    path = ROOT / "boot"
    return path.is_dir() and path.stat().st_dev != ROOT.stat().st_dev


def largest_initramfs() -> int | None:
    """Size of the largest initramfs; null when there is none."""
    sizes = [path.stat().st_size for path in (ROOT / "boot").glob("init*") if path.is_file()]
    return max(sizes, default=None)


@dataclass
class MenuEntry:
    """A menu's line: what it can be chosen by, the kernel it boots, or the menu below it."""

    names: tuple[str, ...] = ()
    kernel: str | None = None
    below: list[MenuEntry] = field(default_factory=list)


def booted_next(config: str, environment: str = "") -> str:
    """Release of the kernel that boots next, such as "6.1.0-28-amd64"; ValueError when unclear."""
    root = read_menu(config)
    chosen = chosen_entry(config, read_grubenv(environment))
    entry = find_entry(root, chosen)
    if entry is None:
        raise ValueError(f"grub.cfg has no entry {chosen!r}")
    if entry.kernel is None:
        raise ValueError(f"the entry {chosen!r} boots no Linux kernel of ours")
    return entry.kernel


def read_menu(config: str) -> MenuEntry:
    """The tree of entries. Other blocks (functions, if) are passed over by their braces."""
    root = MenuEntry()
    open_blocks: list[MenuEntry | None] = [root]
    for line in config.splitlines():
        opens = _OPENS.match(line)
        inner = next((block for block in reversed(open_blocks) if block), root)
        if opens:
            entry = MenuEntry(_names(opens[2]))
            inner.below.append(entry)
            open_blocks.append(entry)
        elif line.rstrip().endswith("{"):
            open_blocks.append(None)
        elif line.strip() == "}" and len(open_blocks) > 1:
            open_blocks.pop()
        elif (linux := _LINUX.match(line)) and inner is not root:
            inner.kernel = inner.kernel or _release(linux[1])
    return root


def _names(words: str) -> tuple[str, ...]:
    parts = shlex.split(words)
    ids = [parts[n + 1] for n, word in enumerate(parts[:-1]) if word in _ID]
    return tuple(parts[:1] + ids)


def _release(path: str) -> str | None:
    name = path.rpartition("/")[2]
    return name.partition("-")[2] or None


def read_grubenv(environment: str) -> dict[str, str]:
    """Variables of grubenv, which is padded with "#"."""
    lines = (line for line in environment.splitlines() if not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines if "=" in line)


def chosen_entry(config: str, variables: dict[str, str]) -> str:
    """The entry chosen: once by grub-reboot, else by the file or what grubenv saved."""
    if variables.get("next_entry"):
        return variables["next_entry"]
    defaults = [match[2] for line in config.splitlines() if (match := _DEFAULT.match(line))]
    fixed = [word for word in defaults if "next_entry" not in word and "prev_saved" not in word]
    chosen = fixed[-1] if fixed else "0"
    return variables.get("saved_entry", "") or "0" if "saved_entry" in chosen else chosen or "0"


def find_entry(root: MenuEntry, chosen: str) -> MenuEntry | None:
    """The entry of an index, title, id or path of them; a submenu stands for its first entry."""
    entry: MenuEntry | None = _one(root, chosen) or root
    if entry is root:
        for word in chosen.split(">"):
            entry = _one(entry, word) if entry else None
    for _ in range(_DEPTH):
        if entry is None or entry.kernel or not entry.below:
            break
        entry = entry.below[0]
    return entry


def _one(menu: MenuEntry, word: str) -> MenuEntry | None:
    if is_digits(word):
        return menu.below[int(word)] if int(word) < len(menu.below) else None
    return next((entry for entry in menu.below if word in entry.names), None)
