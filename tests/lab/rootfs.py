"""The root file system a lab's hosts share: a minimal Debian server, made once and cached."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from tests.lab.mounts import OWN_MOUNTS, mounted_below, remove_tree
from tests.lab.paths import LabError, LabPaths
from tests.lab.shell import Progress, run, timed
from tests.lab.supply import given_rootfs, ubuntu
from tests.lab.supply.debian import debian_sources
from tests.lab.supply.systems import System, system_of

# What a minimal Debian server install with the SSH task has, and python3. What the toolkit brings
# (HAProxy, python3-venv, numactl, ...) stays out: nodes must get it from the mirror.
PACKAGES = (
    "apt-utils", "ca-certificates", "cron", "dbus", "ifupdown", "init", "iproute2",
    "iputils-ping", "kmod", "less", "libpam-systemd", "logrotate", "lsb-release", "nano",
    "netbase", "openssh-server", "pciutils", "procps", "python3", "sensible-utils", "sudo",
    "systemd", "systemd-sysv", "systemd-timesyncd", "tzdata", "udev", "whiptail",
)  # fmt: skip

# Units that cannot work in a container on a shared kernel, or that only cost time in it.
MASKED = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "console-getty.service", "dev-hugepages.mount",
    "dev-mqueue.mount", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service",
    "fstrim.timer", "getty.target", "getty@tty1.service", "ifupdown-wait-online.service",
    "networking.service", "sys-kernel-debug.mount", "sys-kernel-tracing.mount",
    "systemd-networkd-wait-online.service", "systemd-udev-trigger.service",
    "systemd-udevd-control.socket", "systemd-udevd-kernel.socket", "systemd-udevd.service",
    # fs.inotify.max_user_instances (128) is shared by all hosts, as they run under one root: with
    # a user manager a login, 7 of 16 hosts went "degraded".
    "user@.service",
)  # fmt: skip

# VERBOSE makes sshd log each session's command: the tests count remote commands from that.
SSHD = "LogLevel VERBOSE\nPermitRootLogin prohibit-password\n"

_LEFT_OUT = ("doc", "info", "locale", "man")
_RECIPE = 1


def recipe_stamp(system: System) -> str:
    """Return a hash of everything that decides what the base of a system holds."""
    recipe = [_RECIPE, system.name, system.suite, PACKAGES, MASKED, SSHD, _LEFT_OUT]
    if system.shape or system.digest:
        recipe.append(Path(ubuntu.__file__).read_text(encoding="utf-8"))
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]


def ensure_base(lab: LabPaths, progress: Progress) -> None:
    """Build the base of the lab's system unless there is one of this recipe (25-60 s).

    Raises `LabError` if it must be rebuilt while hosts are laid over it.
    """
    system, stamp = system_of(lab), lab.base_stamp
    if lab.base.is_dir() and stamp.is_file() and stamp.read_text() == recipe_stamp(system):
        return
    if lab.hosts.is_dir() and mounted_below(lab.hosts):
        raise LabError(
            "the hosts' base must be rebuilt and hosts are up: run `b200 lab down` first"
        )
    building = lab.base.with_name("base.building").resolve()
    stamp.unlink(missing_ok=True)
    for leftover in (building, lab.base):
        remove_tree(leftover)
    with timed(progress, f"base: {system.title} root file system for the hosts"):
        if system.digest:
            given_rootfs.unpack(building, system)
        else:
            _bootstrap(building, system)
        if system.shape:
            ubuntu.shape(building, system)
        prepare(building, ubuntu.MASKED if system.shape or system.digest else ())
        building.rename(lab.base)
        stamp.write_text(recipe_stamp(system))


def _bootstrap(target: Path, system: System) -> None:
    """Have mmdebstrap install the system into ``target`` from this machine's own mirror."""
    target.parent.mkdir(parents=True, exist_ok=True)
    leave_out = [f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in _LEFT_OUT]
    run(
        [
            *OWN_MOUNTS, "mmdebstrap", "--quiet", "--variant=minbase", "--mode=root",
            f"--include={','.join((*PACKAGES, *(ubuntu.PACKAGES if system.shape else ())))}",
            '--aptopt=APT::Install-Recommends "false"',
            *leave_out, system.suite, target, *debian_sources(system),
        ],
        timeout=1800,
    )  # fmt: skip


def prepare(base: Path, masked: Sequence[str] = ()) -> None:
    """Turn a fresh tree into a host's base: hermetic, keyless, fit for a container.

    *masked* are units besides those that are masked everywhere.
    """
    for unit in (*MASKED, *masked):
        _link(base / "etc/systemd/system" / unit, "/dev/null")
    _link(base / "etc/systemd/system/default.target", "/lib/systemd/system/multi-user.target")
    for key in (base / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    (base / "etc/ssh/sshd_config.d/lab.conf").write_text(SSHD)
    (base / "etc/machine-id").write_text("")
    (base / "var/lib/dbus/machine-id").unlink(missing_ok=True)
    (base / "etc/apt/apt.conf.d/99mmdebstrap").unlink(missing_ok=True)
    (base / "etc/apt/sources.list").write_text("")
    for source in (base / "etc/apt/sources.list.d").glob("*"):
        source.unlink()
    resolver = base / "etc/resolv.conf"
    resolver.unlink(missing_ok=True)
    resolver.write_text("")


def _link(path: Path, target: str) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)
