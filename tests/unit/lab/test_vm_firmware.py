"""What the virtual machine's firmware puts over the real devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from b200kit.node.facts import pci as reader
from tests.lab.firmware.lab_firmware import infiniband, pci, tree, vm
from tests.lab.hardware import scenario
from tests.lab.vm.machine import NUMA_NODES

HEALTHY = scenario.render("healthy", NUMA_NODES)
GPU = HEALTHY["gpus"][4]


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root port with a device, as the kernel has them, and where they are seen afterwards."""
    real = tmp_path / "real"
    monkeypatch.setattr(vm, "REAL", real)
    port = tmp_path / "pci0000:9c/0000:9c:00.0"
    device = port / GPU["pci_address"]
    device.mkdir(parents=True)
    for name, text in {"vendor": "0x1b36", "numa_node": "1", "local_cpulist": "1"}.items():
        (device / name).write_text(f"{text}\n")
    (port / "config").write_bytes(b"real")
    (port / "max_link_speed").write_text("16.0 GT/s PCIe\n")
    (device / "subsystem").symlink_to("../../../bus")
    real.mkdir()
    (real / port.name).symlink_to(port)
    return port


@pytest.fixture
def shown(tmp_path: Path, port: Path) -> Path:
    """What lies over them."""
    folder = tmp_path / "shown" / port.name
    tree.write(folder, vm.port_folder(HEALTHY, GPU, port, port / GPU["pci_address"]))
    return folder


def test_gpu_is_the_scenarios_and_its_place_the_kernels(shown: Path, port: Path) -> None:
    device = shown / GPU["pci_address"]
    assert (device / "vendor").read_text().strip() == "0x10de"
    (port / GPU["pci_address"] / "numa_node").write_text("0\n")
    assert (device / "numa_node").read_text().strip() == "0", "the scenario's node is shown"


def test_driver_is_not_left_to_a_line_that_libkmod_skips() -> None:
    source = (Path(__file__).parents[2] / "lab/vendor_dkms/nvidia.c").read_text()
    assert "MODULE_SOFTDEP" in source, "without one its line of modprobe.d would be run"
    assert "nvidia" not in vm.HOOKED
    assert f'KERNEL=="nvidia", RUN+="{vm.SHOW} nvidia"' in vm.RULE


def test_functions_lead_to_devices_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vm, "RUN", tmp_path)
    for nic in HEALTHY["nics"]:
        tree.write(tmp_path, vm.simulated(HEALTHY, nic, pci.nic(HEALTHY, nic)))
    tree.write(tmp_path / "class", vm.functions(HEALTHY))
    assert set(vm.functions(HEALTHY)) == set(infiniband.devices(HEALTHY["nics"]))
    message: dict[str, Any] = reader.nic(tmp_path / "class" / "mlx5_0")
    assert message["address"] == "0000:05:00.0"
    assert message["switch_management"] is True
    assert message["bridges"] == ["0000:02:01.0"]
