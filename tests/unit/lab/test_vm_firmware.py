"""What the virtual machine's firmware puts over the real devices."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.facts import pci as reader
from tests.lab.firmware.lab_firmware import infiniband, modules, pci, tree, vm
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


def test_root_port_is_real_but_for_its_link(shown: Path) -> None:
    assert (shown / "config").read_bytes() == b"real"
    assert (shown / "max_link_speed").read_text().strip() == "32.0 GT/s PCIe"


def test_link_to_elsewhere_leads_where_it_led(shown: Path, tmp_path: Path) -> None:
    led = (shown / GPU["pci_address"] / "subsystem").readlink()
    assert led == tmp_path / "bus"


def test_node_program_takes_it_for_a_gpu(shown: Path) -> None:
    assert reader.is_gpu(shown / GPU["pci_address"])
    assert reader.driver(shown / GPU["pci_address"]) is None


def test_fabrics_module_that_is_loaded_comes_by_afterwards() -> None:
    lines = vm.hooks().splitlines()
    assert [line.split()[1] for line in lines] == ["mlx5_ib", "ib_umad"]
    for line in lines:
        load, _, after = line.partition(" && ")
        assert "--ignore-install" in load
        assert after == f"{vm.SHOW} {line.split()[1]}"


def test_driver_is_not_left_to_a_line_that_libkmod_skips() -> None:
    source = (Path(__file__).parents[2] / "lab/vendor_dkms/nvidia.c").read_text()
    assert "MODULE_SOFTDEP" in source, "without one its line of modprobe.d would be run"
    assert "nvidia" not in vm.HOOKED
    assert f'KERNEL=="nvidia", RUN+="{vm.SHOW} nvidia"' in vm.RULE


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The driver and the fabric's modules are loaded, nothing is shown yet; what is made of it."""
    made: list[str] = []

    def nodes(names: Iterable[str], mode: int) -> None:
        made.extend(names)

    def forbidden(*_: object) -> None:
        raise PermissionError("mount")

    (tmp_path / "boots").write_text("1\n")
    (tmp_path / "scenario.json").write_text(json.dumps(HEALTHY))
    monkeypatch.setattr(vm, "RUN", tmp_path)
    monkeypatch.setattr(vm, "SCENARIO", tmp_path / "scenario.json")
    monkeypatch.setattr(vm, "DEVICES", tmp_path / "devices")
    monkeypatch.setattr(modules, "make_nodes", nodes)
    monkeypatch.setattr(modules, "is_loaded", lambda name: True)
    monkeypatch.setattr(vm, "loaded_version", lambda name: "580.126.20")
    monkeypatch.setattr(vm, "tmpfs", forbidden)  # as for what udev runs
    return made


def test_driver_is_shown_by_a_process_that_may_not_mount(
    loaded: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["vm", "show", "nvidia"])
    vm.main()
    assert "kernel.version=580.126.20" in (tmp_path / "nvml.conf").read_text().splitlines()
    assert "nvidia7" in loaded
    assert not any(name.startswith("infiniband/") for name in loaded)


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
