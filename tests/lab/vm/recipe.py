"""What the virtual machine's disk holds before any deployment, as data, and its stamp."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab import rootfs
from tests.lab.paths import BRIDGE_ADDRESS, MIRROR_PORT
from tests.lab.supply.systems import System

GUEST = Path(__file__).with_name("guest")
GUEST_FOLDER = "b200-vm"

# A minimal Debian server as installed on a BIOS machine: the hosts' base, its kernel, its loader.
BASE = (*rootfs.PACKAGES, "grub-pc", "initramfs-tools", "linux-image-amd64", "zstd")
# What takes an emulated processor minutes to unpack and configure, and is installed from the mirror
# on the containers: not from where a package comes is shown here, but what it does to a kernel.
# dkms, the headers that name a kernel, and all of the vendor's do come from the mirror.
BROUGHT = (
    *("dpkg-dev", "gcc", "make", "patch"),
    *("haproxy", "mdadm", "nftables", "numactl", "python3-venv"),
)
PACKAGES = (*BASE, *BROUGHT)

# Units that only cost time in an emulated machine, or that call home.
MASKED = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
    "e2scrub_reap.service", "fstrim.timer", "getty@tty1.service", "networking.service",
    "systemd-networkd-wait-online.service", "systemd-pstore.service", "user@.service",
)  # fmt: skip

# As an administrator's installation would have it, but for what makes emulation bearable: no wait
# at the menu, no mitigations for a processor that is a program, and no random addresses. QEMU
# translates code by its address: a program that lies elsewhere each time is translated each time,
# which made 200 processes cost 4.8 s of CPU instead of 1.5, and an initramfs 45 s instead of 17
# (QEMU 7.2).
GRUB = """\
GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_RECORDFAIL_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX="console=ttyS0 mitigations=off norandmaps"
GRUB_TERMINAL=serial
GRUB_DISABLE_OS_PROBER=true
GRUB_DISABLE_RECOVERY=true
GRUB_DISABLE_SUBMENU=true
"""

# The lab's machine has a fixed address by its hardware address; another one asks by DHCP.
FILES = {
    "etc/default/grub": GRUB,
    "etc/fstab": (
        "LABEL=b200-vm / ext4 rw,noatime,errors=remount-ro 0 1\n/swapfile none swap sw 0 0\n"
    ),
    "etc/hostname": "b200-vm\n",
    "etc/hosts": "127.0.0.1 localhost\n127.0.1.1 b200-vm\n",
    "etc/machine-id": "",
    "etc/ssh/sshd_config.d/lab.conf": rootfs.SSHD + "UseDNS no\n",
    "etc/apt/sources.list": "",
    # Thousands of headers are unpacked: no waiting for the disk after each.
    "etc/dpkg/dpkg.cfg.d/b200-vm": "force-unsafe-io\n",
    "etc/resolv.conf": "",
    "etc/systemd/network/90-dhcp.network": (
        "[Match]\nType=ether\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\n[DHCPv4]\nUseDNS=no\n"
    ),
}
# Beside the programs and units of the folder guest/.
DROP_INS = {
    "etc/systemd/system/systemd-udev-trigger.service.d/b200-vm.conf": (
        "[Service]\nExecStart=-/usr/lib/b200-vm/coldplug\n"
    ),
}
# Before the kernel's package is configured: its initramfs holds what this disk needs, no more, as a
# program that emulates a processor takes minutes to compress everything.
EARLY_FILES = {
    "etc/initramfs-tools/conf.d/b200-vm": (
        "MODULES=list\nCOMPRESS=zstd\nCOMPRESSLEVEL=1\nRESUME=none\n"
    ),
    "usr/share/initramfs-tools/modules.d/b200-vm": "virtio_pci\nvirtio_blk\nahci\nsd_mod\next4\n",
}
DISK_MIB = 5120
_LEFT_OUT = tuple(f"/usr/share/{part}" for part in ("doc", "info", "locale", "man"))
# Hardware that no server of this kind has: depmod reads every module there is, at each build.
_MODULES_LEFT_OUT = (
    *("sound", "net/bluetooth", "net/mac80211", "net/wireless"),
    *("fs/btrfs", "fs/ceph", "fs/gfs2", "fs/jfs", "fs/nfs", "fs/ntfs3", "fs/ocfs2", "fs/smb"),
    *(
        f"drivers/{part}"
        for part in (
            *("accessibility", "atm", "bluetooth", "comedi", "firewire", "hid", "hwmon", "iio"),
            *("infiniband/hw", "input/joystick", "input/misc", "input/tablet"),
            *("input/touchscreen", "isdn", "leds", "media", "mmc", "mtd", "net/ethernet"),
            *("net/usb", "net/wireless", "platform", "power", "staging", "target", "usb", "video"),
            *("w1", "gpu/drm/amd", "gpu/drm/i915", "gpu/drm/radeon", "scsi/*"),
        )
    ),
)
# What nouveau and the network and fabric drivers under test need of that.
_MODULES_KEPT = (
    *("drivers/infiniband/hw/mlx5", "drivers/net/ethernet/mellanox"),
    *("drivers/platform/x86", "drivers/video"),
)
_RECIPE = 2


@dataclass(frozen=True)
class Own:
    """What one system's machine has that another's has not; ``modules`` is where its kernel's
    package puts them."""

    modules: str
    packages: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)


# The site's registry is the lab's mirror, which speaks plain HTTP: that is the site's to allow.
_REGISTRY = f'[[registry]]\nlocation = "{BRIDGE_ADDRESS}:{MIRROR_PORT}"\ninsecure = true\n'
OWN: Mapping[str, Own] = {
    "debian12": Own("/lib/modules"),
    "debian13": Own(
        "/usr/lib/modules",
        ("podman",),
        {"etc/containers/registries.conf.d/lab.conf": _REGISTRY},
    ),
}


def packages(system: System) -> tuple[str, ...]:
    """What mmdebstrap installs."""
    return (*PACKAGES, *OWN[system.name].packages)


def files(system: System) -> dict[str, str]:
    """Files of the disk: path in its root -> text."""
    return {**FILES, **OWN[system.name].files}


def guest_files() -> dict[str, str]:
    """Programs and units of the guest: path in its root -> text."""
    return {
        f"usr/lib/{GUEST_FOLDER}/{path.name}": path.read_text(encoding="utf-8")
        for path in sorted(GUEST.iterdir())
        if path.is_file()
    }


def write(root: Path, files: Mapping[str, str]) -> None:
    """Write files into a root; programs of the guest can be executed."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        path.write_text(text, encoding="utf-8")
        if path.parent.name == GUEST_FOLDER and not path.suffix:
            path.chmod(0o755)


def stamp(system: System) -> str:
    """Return a hash of everything that decides what the disk image of a system holds."""
    recipe = [
        *(_RECIPE, system.suite, packages(system), MASKED, files(system)),
        *(DROP_INS, EARLY_FILES, guest_files(), DISK_MIB, dpkg_options(system)),
    ]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]


def dpkg_options(system: System) -> list[str]:
    """Return mmdebstrap's options that leave out what is not needed and keep our early files."""
    modules = f"{OWN[system.name].modules}/*/kernel"
    left_out = [*_LEFT_OUT, *(f"{modules}/{part}" for part in _MODULES_LEFT_OUT)]
    kept = [f"--dpkgopt=path-include={modules}/{part}/*" for part in _MODULES_KEPT]
    excluded = [f"--dpkgopt=path-exclude={pattern}/*" for pattern in left_out]
    return [*excluded, *kept, "--dpkgopt=force-confold", "--dpkgopt=force-unsafe-io"]
