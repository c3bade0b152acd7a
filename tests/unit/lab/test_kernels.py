"""Kernels on a simulated host's disk, and the module that is built for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from b200kit.node.facts import grub
from tests.lab.supply import kernels, module_build

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


@pytest.mark.process
def test_module_is_an_elf_file_that_tells_its_version_and_that_it_is_none() -> None:
    content = module_build.compile_module(DRIVER)
    assert content.startswith(b"\x7fELF")
    assert f"version={DRIVER}\0".encode() in content
    assert b"simulation" in content
    assert content == module_build.compile_module(DRIVER)
