"""Ubuntu's shape for a node: what of it decides how a deployment goes, over Debian's packages.

No mirror of Ubuntu is at hand. A node gets its names (os-release, dpkg's origin), its Python as the
system's python3, its automatic services set up as its images have them (cloud-init,
unattended-upgrades, needrestart; the programs are Debian's), GRUB's settings of its cloud images,
and its archive beside the vendor's (tests/lab/supply/archive.py). Kernel, systemd, apt, HAProxy and
AppArmor are Debian's. Its os-release says so, and with it every report.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from b200kit.catalog import systems
from tests.interpreters import interpreter
from tests.lab.paths import LabError, LabPaths
from tests.lab.shell import run
from tests.lab.supply import archive
from tests.lab.supply.systems import System

# What Ubuntu's server image has beyond Debian's, as far as it matters here; libraries of Python's.
PACKAGES = (
    "apparmor", "cloud-init", "multipath-tools", "needrestart", "netplan.io", "snapd",
    "unattended-upgrades", "libbz2-1.0", "libexpat1", "libffi8", "liblzma5", "libreadline8",
    "libsqlite3-0", "libssl3", "libuuid1", "lvm2",
)  # fmt: skip
# In a container nothing answers them, they cost every boot seconds, or they take the address away
# that the lab gave; of Ubuntu's own root file system, too.
MASKED = (
    "cloud-init-hotplugd.socket", "lvm2-monitor.service", "multipathd.service",
    "multipathd.socket", "snapd.apparmor.service", "snapd.seeded.service", "snapd.service",
    "snapd.socket", "systemd-networkd.service", "systemd-networkd.socket",
)  # fmt: skip
SEED = "var/lib/cloud/seed/nocloud"
_PYTHON = re.compile(rb"#! ?(/usr/bin/python3|/usr/bin/env python3)(?=[ \n])")
_DEBIANS_PYTHON = b"#!/usr/bin/python3.debian"
_LEFT_OUT = ("config-*", "idlelib", "site-packages", "dist-packages", "test", "turtledemo")

_FILES = {
    "usr/lib/os-release": """\
PRETTY_NAME="{title}"
NAME="Ubuntu"
VERSION_ID="{version}"
VERSION="{version} LTS"
VERSION_CODENAME={codename}
ID=ubuntu
ID_LIKE=debian
UBUNTU_CODENAME={codename}
""",
    "etc/lsb-release": """\
DISTRIB_ID=Ubuntu
DISTRIB_RELEASE={version}
DISTRIB_CODENAME={codename}
DISTRIB_DESCRIPTION="{title}"
""",
    "etc/dpkg/origins/ubuntu": "Vendor: Ubuntu\nVendor-URL: http://www.ubuntu.com/\n",
    # As unattended-upgrades of Ubuntu 24.04 ships them.
    "etc/apt/apt.conf.d/20auto-upgrades": """\
APT::Periodic::Update-Package-Lists "1";
APT::Periodic::Unattended-Upgrade "1";
""",
    "etc/apt/apt.conf.d/50unattended-upgrades": """\
Unattended-Upgrade::Allowed-Origins {{
        "Ubuntu:{codename}";
        "Ubuntu:{codename}-security";
        "UbuntuESMApps:{codename}-apps-security";
        "UbuntuESM:{codename}-infra-security";
}};
Unattended-Upgrade::Package-Blacklist {{
}};
""",
    # 24.04's needrestart restarts by itself after every run of apt (Debian's asks).
    "etc/needrestart/conf.d/50-ubuntu.conf": "$nrconf{{restart}} = 'a';\n1;\n",
    "etc/default/grub": """\
GRUB_DEFAULT=0
GRUB_TIMEOUT_STYLE=hidden
GRUB_TIMEOUT=0
GRUB_CMDLINE_LINUX_DEFAULT="quiet splash"
GRUB_CMDLINE_LINUX=""
""",
    # As Ubuntu's cloud images have it (livecd-rootfs).
    "etc/default/grub.d/50-cloudimg-settings.cfg": """\
GRUB_RECORDFAIL_TIMEOUT=0
GRUB_TIMEOUT=0
GRUB_CMDLINE_LINUX_DEFAULT="console=tty1 console=ttyS0"
GRUB_TERMINAL=console
""",
    "etc/fstab": "/swap.img\tnone\tswap\tsw\t0\t0\n",
    # The container's network is there; only what the shape is about runs.
    "etc/cloud/cloud.cfg.d/90-lab.cfg": """\
datasource_list: [NoCloud]
network: {{config: disabled}}
disable_root: false
users: []
ssh_deletekeys: false
ssh_genkeytypes: []
cloud_init_modules: [write-files, update_hostname, ssh]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts-user, final-message]
""",
    "etc/cloud/ds-identify.cfg": "policy: enabled\n",
    "etc/netplan/50-cloud-init.yaml": """\
network:
  version: 2
  ethernets:
    host0: {{dhcp4: true}}
""",
}


def shape(base: Path, system: System) -> None:
    """Turn Debian's tree into a base of nodes of Ubuntu's shape; `LabError` without its Python."""
    words = {
        "title": system.title,
        "version": systems.load()[system.key].version,
        "codename": system.codename,
    }
    for path, text in _FILES.items():
        target = base / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text.format(**words), encoding="utf-8")
    (base / "etc/netplan/50-cloud-init.yaml").chmod(0o600)
    origin = base / "etc/dpkg/origins/default"
    origin.unlink(missing_ok=True)
    origin.symlink_to("ubuntu")
    _install_python(base, system.python)


def _install_python(base: Path, version: str) -> None:
    """Make a Python of this machine the tree's python3; Debian's own programs keep theirs."""
    program = interpreter(version)
    if program is None:
        raise LabError(f"python{version} is needed for nodes of this shape: install it")
    ask = "import sys, sysconfig; print(sys.base_prefix); print(sysconfig.get_config_var('LIBDIR'))"
    prefix, libraries = map(Path, run([program, "-I", "-c", ask]).stdout.split())
    name = f"python{version}"
    shutil.copy2((prefix / "bin" / name).resolve(), base / "usr/bin" / name)
    for part in ("lib", "include"):
        shutil.copytree(
            prefix / part / name, base / "usr" / part / name, dirs_exist_ok=True,
            ignore=shutil.ignore_patterns(*_LEFT_OUT),
        )  # fmt: skip
    for library in libraries.glob(f"lib{name}.so*"):
        shutil.copy2(library, base / "usr/lib/x86_64-linux-gnu", follow_symlinks=False)
    # PEP 668, as Ubuntu's package has it.
    marker = base / "usr/lib" / name / "EXTERNALLY-MANAGED"
    marker.write_text("[externally-managed]\nError=This environment is externally managed\n")
    divert = ["dpkg-divert", "--local", "--rename", "--divert", "/usr/bin/python3.debian"]
    run(["chroot", base, *divert, "--add", "/usr/bin/python3"])
    (base / "usr/bin/python3").symlink_to(name)
    for script in _scripts(base):
        script.write_bytes(_PYTHON.sub(_DEBIANS_PYTHON, script.read_bytes(), count=1))
    run(["chroot", base, "python3", "-c", "import ctypes, ensurepip, lzma, sqlite3, ssl, venv"])


def _scripts(base: Path) -> Iterator[Path]:
    """Programs of Debian's packages that name its python3."""
    for folder in ("usr/bin", "usr/sbin", "usr/lib", "usr/share"):
        for path in (base / folder).rglob("*"):
            if path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o111:
                with path.open("rb") as file:
                    if _PYTHON.match(file.read(64)):
                        yield path


def seed(lab: LabPaths, name: str, root: Path) -> None:
    """What is a node's own: its instance for cloud-init, and Ubuntu's archive as apt knows it."""
    nocloud = root / SEED
    nocloud.mkdir(parents=True, exist_ok=True)
    (nocloud / "meta-data").write_text(f"instance-id: iid-{name}\nlocal-hostname: {name}\n")
    (nocloud / "user-data").write_text("#cloud-config\n{}\n")
    archive.add(lab, root)
