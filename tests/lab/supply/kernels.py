"""The kernels a simulated host has on its disk, and the GRUB menu that would boot them.

All hosts run this machine's kernel, whatever their menu says, and `uname` is never faked. So the
one true kernel on a host's disk has this machine's release. A newer one can be put beside it as
the menu's default: the host then "boots into the old kernel", which is all it can do, and the
deploy must find that out.
"""

from __future__ import annotations

import json
import platform
import shutil
from pathlib import Path

from tests.lab.firmware.lab_firmware import grub

#: A release newer than that of any machine, of a kernel no host can boot.
NEWER = "99.1.0-b200lab-amd64"


def install_kernel(root: Path, release: str, headers: bool = True) -> None:
    """Put a kernel's files on the disk at `root` and in GRUB's menu, whose default is the newest.

    Without `headers` DKMS builds nothing for it.
    """
    modules = root / "lib/modules" / release
    modules.mkdir(parents=True, exist_ok=True)
    if headers:
        (modules / "build").mkdir(exist_ok=True)
    boot = root / "boot"
    (boot / "grub").mkdir(parents=True, exist_ok=True)
    for name in (f"vmlinuz-{release}", f"initrd.img-{release}"):
        (boot / name).write_text("b200kit lab: simulation, no kernel can boot this\n")
    write_menu(root)


def remove_kernel(root: Path, release: str) -> None:
    """Take a kernel off the menu and off the disk, with the modules built for it."""
    for path in (root / "boot").glob(f"*-{release}"):
        path.unlink()
    tree = root / "lib/modules" / release
    shutil.rmtree(tree)
    write_menu(root)


def running() -> str:
    """Release of the kernel that every host runs."""
    return platform.release()


def write_menu(root: Path) -> None:
    """What the kernels' own packages have update-grub do, from outside."""
    scenario = json.loads((root / "etc/b200-lab/scenario.json").read_text(encoding="utf-8"))
    (root / grub.CONFIG).write_text(grub.config(scenario, root), encoding="utf-8")
