"""For which kernels the nvidia module is built, read from a node's disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from b200kit.node.facts import driver_module
from tests.lab.supply import kernels

OLD, NEW = "6.1.0-28-amd64", "6.1.0-30-amd64"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node's disk with two kernels, where modinfo prints the file's text."""
    scenario = tmp_path / "etc/b200-lab/scenario.json"
    scenario.parent.mkdir(parents=True)
    scenario.write_text(json.dumps({"kernel_cmdline": "BOOT_IMAGE=/boot/vmlinuz ro"}))
    for release in (OLD, NEW):
        kernels.install_kernel(tmp_path, release)
    monkeypatch.setattr(driver_module, "ROOT", tmp_path)
    monkeypatch.setattr(driver_module, "command", lambda argv: Path(argv[-1]).read_text())
    return tmp_path


def put(root: Path, kernel: str, place: str, content: str = "580.126.20\n") -> None:
    """A module's file."""
    path = root / "lib/modules" / kernel / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


@pytest.mark.parametrize(
    "place",
    [
        "updates/dkms/nvidia.ko",
        "updates/dkms/nvidia.ko.xz",
        "updates/dkms/nvidia.ko.zst",
        "updates/dkms/nvidia-current.ko",
        "extra/nvidia.ko",
        "kernel/nvidia-580-open/nvidia.ko.zst",
        "kernel/drivers/video/nvidia.ko",
    ],
)
def test_module_is_found_where_the_systems_put_it(root: Path, place: str) -> None:
    put(root, NEW, place)
    assert driver_module.built_for() == {OLD: None, NEW: "580.126.20"}


def test_what_dkms_built_hides_what_came_with_the_kernel(root: Path) -> None:
    put(root, NEW, "kernel/nvidia-580-open/nvidia.ko", "570.158.01\n")
    put(root, NEW, "updates/dkms/nvidia.ko")
    assert driver_module.built_for()[NEW] == "580.126.20"


def test_module_that_tells_no_version_is_unmeasured(root: Path) -> None:
    put(root, NEW, "updates/dkms/nvidia.ko", "\n")
    assert "has no version" in driver_module.built_for()[NEW]["unmeasured"]


def test_other_modules_of_the_driver_do_not_count(root: Path) -> None:
    put(root, NEW, "updates/dkms/nvidia-uvm.ko")
    assert driver_module.built_for()[NEW] is None


def test_default_kernel_is_the_menus(root: Path) -> None:
    assert driver_module.default_kernel() == NEW
    (root / "boot/grub/grubenv").write_text("next_entry=gnulinux-advanced>2\n")
    assert driver_module.default_kernel() == OLD


def test_node_without_grub_does_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "ROOT", tmp_path)
    assert driver_module.driver_module()["default_kernel"] == {"unmeasured": "there is no grub.cfg"}
    assert driver_module.built_for() == {}


def test_largest_initramfs_is_told_in_bytes(root: Path) -> None:
    (root / f"boot/initrd.img-{OLD}").write_bytes(bytes(5000))
    assert driver_module.boot() == {"own_file_system": False, "largest_initramfs_bytes": 5000}


def test_node_without_boot_has_no_initramfs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_module, "ROOT", tmp_path)
    assert driver_module.boot() == {"own_file_system": False, "largest_initramfs_bytes": None}
