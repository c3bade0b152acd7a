"""For which kernels the nvidia module is built, and which kernel would boot next.

DKMS builds a module for one kernel at a time, and skips a kernel whose headers are missing without
an error, so a node can have the driver's packages whole and still boot without a driver.
"""

from __future__ import annotations

import platform
from functools import partial
from pathlib import Path
from typing import Any

from b200kit.node.facts import grub
from b200kit.node.lib.readings import attempt, command, unmeasured

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
            return grub.default_kernel(config.read_text("utf-8", "replace"), saved)
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
