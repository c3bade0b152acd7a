"""What a virtual machine needs on this machine beyond what every lab host does."""

from __future__ import annotations

from tests.lab.shell import Progress, ensure_host_packages

PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mke2fs": "e2fsprogs",
}
FILES = {"/usr/share/seabios/bios-256k.bin": "seabios"}


def ensure_tools(progress: Progress) -> None:
    """Install QEMU if it is missing (Debian only)."""
    ensure_host_packages(progress, PROGRAMS, FILES)
