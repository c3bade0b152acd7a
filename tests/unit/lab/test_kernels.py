"""Kernels on a simulated host's disk, and the module that is built for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from b200kit.node.facts import grub
from tests.lab.firmware.lab_firmware import modules
from tests.lab.shell import run
from tests.lab.supply import kernels, module_build, packages
from tests.lab.supply.deb import build

DRIVER = "580.126.20"


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A host's disk with what update-grub reads there."""
    scenario = tmp_path / "etc/b200-lab/scenario.json"
    scenario.parent.mkdir(parents=True)
    scenario.write_text(json.dumps({"kernel_cmdline": "BOOT_IMAGE=/boot/vmlinuz ro"}))
    return tmp_path


def test_newer_kernel_boots_first_until_it_is_removed(disk: Path) -> None:
    kernels.install_kernel(disk, kernels.running())
    kernels.install_kernel(disk, kernels.NEWER)
    menu = disk / "boot/grub/grub.cfg"
    assert grub.default_kernel(menu.read_text()) == kernels.NEWER
    kernels.remove_kernel(disk, kernels.NEWER)
    assert grub.default_kernel(menu.read_text()) == kernels.running()
    assert not (disk / "lib/modules" / kernels.NEWER).exists()


def test_headers_are_what_says_that_a_module_can_be_built(disk: Path) -> None:
    kernels.install_kernel(disk, "1.0", headers=False)
    kernels.install_kernel(disk, "2.0")
    built = [path.parent.name for path in (disk / "lib/modules").glob("*/build")]
    assert built == ["2.0"]


def test_module_is_an_elf_file_that_tells_its_version_and_that_it_is_none() -> None:
    content = module_build.compile_module(DRIVER)
    assert content.startswith(b"\x7fELF")
    assert f"version={DRIVER}\0".encode() in content
    assert b"simulation" in content
    assert content == module_build.compile_module(DRIVER)


def test_simulated_boot_loads_what_was_built_for_the_running_kernel(tmp_path: Path) -> None:
    path = tmp_path / modules.NVIDIA_MODULE
    path.parent.mkdir(parents=True)
    assert modules.nvidia_version(tmp_path) is None
    path.write_bytes(module_build.compile_module(DRIVER))
    assert modules.nvidia_version(tmp_path) == DRIVER


@pytest.fixture
def package(tmp_path: Path, unpack: Callable[[Path], Path]) -> Path:
    """The module's package, unpacked."""
    found = {package.name: package for package in packages.driver_packages(DRIVER)}
    return unpack(build(found["nvidia-kernel-open-dkms"], tmp_path))


@pytest.fixture
def unpack(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Unpacks a package with its scripts."""

    def unpacked(path: Path) -> Path:
        target = tmp_path_factory.mktemp("unpacked")
        run(["dpkg-deb", "--raw-extract", path, target])
        return target

    return unpacked


def test_package_builds_at_configuration_and_removes_before_removal(package: Path) -> None:
    for name in ("postinst", "prerm"):
        assert (package / "DEBIAN" / name).stat().st_mode & 0o111 == 0o111
    assert f"version={DRIVER}" in (package / "DEBIAN/postinst").read_text()


def test_package_brings_firmware_that_can_fill_a_disk(package: Path) -> None:
    firmware = package / f"usr/lib/firmware/nvidia/{DRIVER}/gsp_ga10x.bin"
    assert firmware.stat().st_size == packages.FIRMWARE_BYTES
