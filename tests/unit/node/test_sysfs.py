"""PCI, NUMA, InfiniBand and modules from a file tree made for the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.node import sysfs


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty /sys and /proc."""
    monkeypatch.setattr(sysfs, "SYS", tmp_path / "sys")
    monkeypatch.setattr(sysfs, "PROC", tmp_path / "proc")
    for name in ("bus/pci/devices", "devices/system/node", "devices/system/cpu", "module"):
        (tmp_path / "sys" / name).mkdir(parents=True)
    (tmp_path / "proc").mkdir()
    return tmp_path / "sys"


def write(directory: Path, **files: str) -> Path:
    """A directory of small files."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name).write_text(content + "\n")
    return directory


def pci(tree: Path, address: str, vendor: str = "0x10de", kind: str = "0x030200") -> Path:
    """One PCI device, a GPU unless told otherwise."""
    facts = {"vendor": vendor, "class": kind, "device": "0x2901", "numa_node": "1"}
    facts |= {"local_cpulist": "56-111", "current_link_speed": "32.0 GT/s PCIe"}
    facts |= {"current_link_width": "16", "max_link_speed": "32.0 GT/s PCIe"}
    return write(tree / "bus/pci/devices" / address, **facts, max_link_width="16")


def test_only_nvidia_gpus_are_listed_by_address(tree: Path) -> None:
    pci(tree, "0000:90:00.0")
    pci(tree, "0000:8f:00.0")
    pci(tree, "0000:05:00.0", kind="0x068000")
    pci(tree, "0000:03:00.0", vendor="0x1a03", kind="0x030000")
    gpus = sysfs.gpus()
    assert [gpu["address"] for gpu in gpus] == ["0000:8f:00.0", "0000:90:00.0"]
    assert (gpus[0]["vendor"], gpus[0]["device"], gpus[0]["numa_node"]) == ("10de", "2901", 1)


def test_fact_that_is_not_there_is_unmeasured_and_the_rest_is_read(tree: Path) -> None:
    (pci(tree, "0000:8f:00.0") / "numa_node").unlink()
    gpu = sysfs.gpus()[0]
    assert "unmeasured" in gpu["numa_node"]
    assert gpu["current_link_width"] == 16


def test_numa_nodes_without_cpus_or_memory_are_listed(tree: Path) -> None:
    nodes = tree / "devices/system/node"
    write(nodes / "node10", cpulist="", meminfo="Node 10 MemTotal:  0 kB")
    write(nodes / "node2", cpulist="0-3", meminfo="Node 2 MemTotal:  64 kB\nNode 2 MemFree: 1 kB")
    (nodes / "power").mkdir()
    assert sysfs.numa() == [
        {"id": 2, "cpus": "0-3", "memory_kib": 64},
        {"id": 10, "cpus": "", "memory_kib": 0},
    ]


def test_switch_management_ports_are_told_from_network_ports(tree: Path) -> None:
    for name, data in (("mlx5_10", "SMDL=SW_MNG"), ("mlx5_9", "ConnectX-7")):
        device = write(tree / "devices" / f"0000:1{name[-1]}:00.0", vpd=data, numa_node="0")
        (tree / "class/infiniband" / name).mkdir(parents=True)
        (tree / "class/infiniband" / name / "device").symlink_to(device)
    nics = sysfs.nics()
    assert [nic["name"] for nic in nics] == ["mlx5_9", "mlx5_10"]
    assert [nic["switch_management"] for nic in nics] == [False, True]


def test_device_without_vital_product_data_is_no_switch_port(tree: Path) -> None:
    device = write(tree / "devices/0000:10:00.0", numa_node="0")
    (tree / "class/infiniband/mlx5_0").mkdir(parents=True)
    (tree / "class/infiniband/mlx5_0/device").symlink_to(device)
    assert sysfs.nics()[0]["switch_management"] is False


def test_machine_without_infiniband_has_no_ports(tree: Path) -> None:
    assert sysfs.nics() == []


def test_module_is_a_version_or_true_or_null(tree: Path) -> None:
    write(tree / "module/nvidia", version="580.126.20", initstate="live")
    write(tree / "module/ib_umad", initstate="live")
    write(tree / "module/nouveau", initstate="going")
    (tree / "module/mlx5_core").mkdir()
    modules = sysfs.modules()
    assert modules["nvidia"] == "580.126.20"
    assert modules["ib_umad"] is True
    assert modules["mlx5_core"] is True
    assert modules["nouveau"] is None
    assert modules["mlx5_ib"] is None


def test_threads_of_a_core_are_listed_once(tree: Path) -> None:
    for cpu, core in ((0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")):
        write(tree / f"devices/system/cpu/cpu{cpu}/topology", thread_siblings_list=core)
    assert sysfs.siblings() == ["0,2", "1,3"]
