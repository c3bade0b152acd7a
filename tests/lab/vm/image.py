"""The virtual machine's disk image: made once, booted once to put GRUB on it, and cached."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.lab.mounts import OWN_MOUNTS, remove_tree
from tests.lab.paths import LabError, LabPaths
from tests.lab.shell import Progress, run, timed
from tests.lab.supply.debian import debian_sources
from tests.lab.supply.systems import System, system_of
from tests.lab.vm import disk, recipe
from tests.lab.vm.machine import first_start

_ENABLED = ("systemd-networkd.service", "ssh.service")
_FIRST_START_S = 300


def directory(lab: LabPaths) -> Path:
    """Where the image and the state of its packages are kept."""
    return lab.cache / f"vm-{system_of(lab).name}"


def image(lab: LabPaths) -> Path:
    """The raw disk image every machine's own disk is laid over."""
    return directory(lab) / "disk.raw"


def dpkg_status(lab: LabPaths) -> Path:
    """What dpkg says is installed in the image."""
    return directory(lab) / "dpkg-status"


def ensure_image(lab: LabPaths, progress: Progress) -> Path:
    """Return the image, made now unless the one that is there has this recipe's stamp."""
    system, stamp = system_of(lab), directory(lab) / "stamp"
    if stamp.is_file() and stamp.read_text() == recipe.stamp(system):
        return image(lab)
    building = directory(lab).with_name("vm.building")
    remove_tree(building)
    building.mkdir(parents=True)
    root = building / "root"
    with timed(progress, f"vm: {system.title} with its kernel"):
        _bootstrap(root, building / "early", system)
        prepare(root, system)
    with timed(progress, "vm: disk image"):
        disk.make_image(building / "disk.raw", root, recipe.DISK_MIB)
    with timed(progress, "vm: first start, which installs GRUB"):
        _make_bootable(building, root)
    shutil.copyfile(root / "var/lib/dpkg/status", building / "dpkg-status")
    shutil.copyfile(root / "var/lib/apt/extended_states", building / "extended_states")
    for leftover in (root, building / "early"):
        remove_tree(leftover)
    (building / "stamp").write_text(recipe.stamp(system))
    remove_tree(directory(lab))
    building.rename(directory(lab))
    return image(lab)


def forget_image(lab: LabPaths) -> None:
    """Have `ensure_image` make it again."""
    (directory(lab) / "stamp").unlink(missing_ok=True)


def _bootstrap(root: Path, early: Path, system: System) -> None:
    """Have mmdebstrap install a system into ``root`` from this machine's own mirror."""
    recipe.write(early, recipe.EARLY_FILES)
    answer = "grub-pc grub-pc/install_devices_empty boolean true"
    run(
        [
            *OWN_MOUNTS, "mmdebstrap", "--quiet", "--variant=minbase", "--mode=root",
            f"--include={','.join(recipe.packages(system))}",
            '--aptopt=APT::Install-Recommends "false"',
            *recipe.dpkg_options(system),
            f'--setup-hook=cp -a "{early}/." "$1/"',
            f'--essential-hook=echo {answer} | chroot "$1" debconf-set-selections',
            system.suite, root, *debian_sources(system),
        ],
        timeout=1800,
    )  # fmt: skip


def prepare(root: Path, system: System) -> None:
    """Turn a fresh Debian tree into the machine's disk: hermetic, keyless, headless."""
    units = root / "etc/systemd/system"
    recipe.write(root, recipe.files(system) | recipe.DROP_INS | recipe.guest_files())
    for unit in recipe.MASKED:
        _link(units / unit, "/dev/null")
    _link(units / "default.target", "/lib/systemd/system/multi-user.target")
    _link(units / "multi-user.target.wants/systemd-networkd.service",
          "/lib/systemd/system/systemd-networkd.service")  # fmt: skip
    for program in (root / "usr/lib/b200-vm").glob("*.service"):
        _link(units / program.name, f"/usr/lib/b200-vm/{program.name}")
        _link(units / "sysinit.target.wants" / program.name, f"/usr/lib/b200-vm/{program.name}")
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    (root / "etc/apt/apt.conf.d/99mmdebstrap").unlink(missing_ok=True)
    (root / "etc/dpkg/dpkg.cfg.d/99mmdebstrap").unlink(missing_ok=True)
    (root / "var/lib/dbus/machine-id").unlink(missing_ok=True)
    for source in (root / "etc/apt/sources.list.d").glob("*"):
        source.unlink()


def _make_bootable(building: Path, root: Path) -> None:
    """Start the image's kernel directly, with the program that installs GRUB as PID 1."""
    kernel, initrd = (newest(root, name) for name in ("vmlinuz", "initrd.img"))
    console = building / "console"
    run(first_start(building / "disk.raw", kernel, initrd, console), timeout=_FIRST_START_S)
    said = console.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    if not any(line.endswith("b200-vm: bootable") for line in said):
        why = " / ".join(said[-4:]) or "its console is empty"
        raise LabError(f"the virtual machine's first start did not install GRUB: {why}")


def newest(root: Path, name: str) -> Path:
    """The one kernel or initramfs of a tree; `LabError` when there is none."""
    found = sorted((root / "boot").glob(f"{name}-*"))
    if not found:
        raise LabError(f"the virtual machine's tree has no /boot/{name}-*")
    return found[-1]


def _link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)
