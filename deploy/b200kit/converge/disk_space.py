"""Is there disk space for what an installation will write? From an observation. Pure.

What apt's packages need is read from apt on the node (b200kit/node/packages/transaction.py); an
initramfs is made by their scripts, and apt knows nothing of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

PATHS = ("/", "/srv", "/boot", "/var")
"""Paths whose file systems are observed."""
_INITRAMFS_TIMES = 2
"""Free space on /boot, in largest initramfs: the new one is written beside the old one, and a new
kernel brings one more. Inferred from initramfs-tools (it writes initrd.img-X.new, then renames)."""
_TOUCHES_BOOT = re.compile(
    r"^(nvidia-(open|kernel|dkms|driver)|cuda-drivers|linux-(image|head)|dkms$)"
)


def shortage(packages: Iterable[str], state: Mapping[str, Any]) -> str:
    """Why *packages* must not be installed on this node now; empty when nothing is known against.

    /boot counts where it is a file system of its own and a package makes an initramfs.
    """
    if not any(_TOUCHES_BOOT.match(name) for name in packages):
        return ""
    boot, disks = state.get("boot"), state.get("disks")
    if not isinstance(boot, Mapping) or boot.get("own_file_system") is not True:
        return ""
    largest = boot.get("largest_initramfs_bytes")
    disk = disks.get("/boot") if isinstance(disks, Mapping) else None
    free = disk.get("free_bytes") if isinstance(disk, Mapping) else None
    if not isinstance(largest, int) or not isinstance(free, int):
        return ""
    need = _INITRAMFS_TIMES * largest
    if free >= need:
        return ""
    return (
        f"no disk space on /boot: {_mb(free)} free, and {_mb(need)} are needed for a new initramfs "
        "(twice the largest there); remove old kernels (apt-get autoremove --purge), then run again"
    )


def _mb(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
