"""What makes a host itself, written onto its fresh disk before it boots."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

from tests.lab import ssh
from tests.lab.hardware import image
from tests.lab.hardware.scenario import render
from tests.lab.paths import LabPaths, host_address
from tests.lab.power.bmc_system import system_id
from tests.lab.supply import kernels, ubuntu
from tests.lab.supply.systems import system_of

FIRMWARE = Path(__file__).parent / "firmware"
_GUEST_FIRMWARE = "usr/lib/b200-lab"


def machine_id(name: str) -> str:
    """Return a host's machine id: 32 hex digits that stay over resets, as hardware's would."""
    return hashlib.sha256(f"b200-lab {name}".encode()).hexdigest()[:32]


def seed_disk(lab: LabPaths, name: str, root: Path, scenario: str) -> None:
    """Write name, identity, keys, scenario and simulated firmware into the root at ``root``."""
    etc = root / "etc"
    (etc / "hostname").write_text(f"{name}\n", encoding="utf-8")
    # A server's name is its real address, as name servers and cloud images have it: with 127.0.1.1
    # a program that asks for its own name would find loopback by chance.
    hosts = f"127.0.0.1 localhost\n{host_address(name)} {name}\n"
    (etc / "hosts").write_text(hosts, encoding="utf-8")
    (etc / "machine-id").write_text(f"{machine_id(name)}\n", encoding="utf-8")
    (etc / "b200-lab").mkdir(exist_ok=True)
    (etc / "b200-lab/product_uuid").write_text(f"{system_id(name)}\n", encoding="utf-8")
    write_keys(lab, root, name)
    write_scenario(root, scenario)
    kernels.install_kernel(root, kernels.running())
    install_firmware(root)
    if system_of(lab).shape:
        ubuntu.seed(lab, name, root)
    image.install(root, scenario)


def write_keys(lab: LabPaths, root: Path, name: str) -> None:
    """Write the login key and the host's key."""
    authorized = root / "root/.ssh/authorized_keys"
    authorized.parent.mkdir(mode=0o700, exist_ok=True)
    _install(lab.ssh_key.with_suffix(".pub"), authorized, 0o600)
    host_key, its_own = root / "etc/ssh/ssh_host_ed25519_key", ssh.host_key(lab, name)
    _install(its_own, host_key, 0o600)
    _install(its_own.with_suffix(".pub"), host_key.with_suffix(".pub"), 0o644)


def note_act(root: Path, act: str) -> None:
    """Tell the simulated hardware what was done to it from outside, one word a line."""
    with open(root / "etc/b200-lab/acts", "a", encoding="utf-8") as file:
        file.write(f"{act}\n")


def check_scenario(scenario: str) -> None:
    """Raise `LabError` if a scenario (name or path) is unknown or cannot be."""
    render(scenario, os.cpu_count() or 1)


def write_scenario(root: Path, scenario: str, cpus: int | None = None) -> None:
    """Render a scenario for ``cpus`` (this machine's) CPUs onto the host's disk, in one step."""
    target = root / "etc/b200-lab/scenario.json"
    target.parent.mkdir(exist_ok=True)
    fresh = target.with_suffix(".new")
    document = render(scenario, cpus or os.cpu_count() or 1)
    fresh.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    fresh.chmod(0o644)
    os.replace(fresh, target)


def install_firmware(root: Path) -> None:
    """Copy the simulated hardware's files and have its units start early in boot."""
    target = root / _GUEST_FIRMWARE
    shutil.copytree(
        FIRMWARE, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
    )
    units = root / "etc/systemd/system"
    for folder in FIRMWARE.glob("*.service.d"):
        shutil.copytree(folder, units / folder.name, dirs_exist_ok=True)
    wants = units / "sysinit.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    for unit in target.glob("*.service"):
        link = root / "etc/systemd/system" / unit.name
        for path, to in ((link, f"/{_GUEST_FIRMWARE}/{unit.name}"), (wants / unit.name, link.name)):
            path.unlink(missing_ok=True)
            path.symlink_to(to if path is link else f"/etc/systemd/system/{to}")


def _install(source: Path, target: Path, mode: int) -> None:
    shutil.copyfile(source, target)
    target.chmod(mode)
