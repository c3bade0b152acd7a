"""GPUs, the bridges above them and InfiniBand devices, from a file tree made for the test."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.facts import pci

ROOT_PORT, UPSTREAM, DOWNSTREAM = "0000:88:01.0", "0000:89:00.0", "0000:8a:00.0"
SWITCH = f"devices/pci0000:88/{ROOT_PORT}/{UPSTREAM}/{DOWNSTREAM}"
LINK = {"current_link_speed": "32.0 GT/s PCIe", "current_link_width": "16"}
LINK |= {"max_link_speed": "32.0 GT/s PCIe", "max_link_width": "16"}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty /sys."""
    monkeypatch.setattr(pci, "SYS", tmp_path)
    (tmp_path / "bus/pci/devices").mkdir(parents=True)
    return tmp_path


def write(directory: Path, **files: str) -> Path:
    """A directory of small files."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name).write_text(content + "\n")
    return directory


def gpu(
    tree: Path, address: str, vendor: str = "0x10de", kind: str = "0x030200", at: str = SWITCH
) -> Path:
    """One PCI device with its link on the bus, a GPU below a switch unless it is given."""
    facts = {"vendor": vendor, "class": kind, "device": "0x2901", "numa_node": "1"}
    device = write(tree / at / address, **facts, **LINK, local_cpulist="56-111")
    (tree / "bus/pci/devices" / address).symlink_to(device)
    return device


def capabilities(*found: tuple[int, int]) -> bytes:
    """Configuration space with these extended capabilities: id, and its third word."""
    space = bytearray(4096)
    for number, (name, control) in enumerate(found):
        at, last = 0x100 + number * 0x40, number + 1 == len(found)
        struct.pack_into("<I", space, at, name | 1 << 16 | (0 if last else (at + 0x40) << 20))
        struct.pack_into("<H", space, at + 6, control)
    return bytes(space)


def nic(tree: Path, name: str, address: str, **files: str) -> Path:
    """One InfiniBand device below a root port of its own."""
    device = write(tree / "devices/pci0000:0f/0000:0f:01.0" / address, numa_node="0", **files)
    entry = tree / "class/infiniband" / name
    (entry / "ports").mkdir(parents=True)
    (entry / "device").symlink_to(device)
    return entry


def test_only_nvidia_gpus_are_listed_by_address(tree: Path) -> None:
    gpu(tree, "0000:90:00.0")
    gpu(tree, "0000:8f:00.0")
    gpu(tree, "0000:05:00.0", kind="0x068000")
    gpu(tree, "0000:03:00.0", vendor="0x1a03", kind="0x030000")
    gpus = pci.gpus()
    assert [gpu["address"] for gpu in gpus] == ["0000:8f:00.0", "0000:90:00.0"]
    assert (gpus[0]["vendor"], gpus[0]["device"], gpus[0]["numa_node"]) == ("10de", "2901", 1)


def test_fact_that_is_not_there_is_unmeasured_and_the_rest_is_read(tree: Path) -> None:
    (gpu(tree, "0000:8f:00.0") / "numa_node").unlink()
    found = pci.gpus()[0]
    assert "unmeasured" in found["numa_node"]
    assert found["current_link_width"] == 16


def test_bridges_come_root_port_first_with_their_own_links(tree: Path) -> None:
    gpu(tree, "0000:8f:00.0")
    upstream = tree / "devices/pci0000:88" / ROOT_PORT / UPSTREAM
    write(upstream, **LINK | {"current_link_speed": "8.0 GT/s PCIe"})
    write(upstream / DOWNSTREAM, current_link_speed="Unknown", current_link_width="0")
    root, switch, port = pci.gpus()[0]["bridges"]
    assert [b["address"] for b in (root, switch, port)] == [ROOT_PORT, UPSTREAM, DOWNSTREAM]
    assert root["current_link_speed"] is None
    assert (switch["current_link_speed"], switch["max_link_width"]) == ("8.0 GT/s PCIe", 16)
    assert (port["current_link_speed"], port["current_link_width"]) == (None, 0)


def test_bridge_that_two_gpus_share_is_the_same_for_both(tree: Path) -> None:
    gpu(tree, "0000:8f:00.0")
    gpu(tree, "0000:90:00.0")
    first, second = pci.gpus()
    assert first["bridges"] == second["bridges"]
    assert len(first["bridges"]) == 3


def test_shared_bridge_is_read_once(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for function in range(8):
        gpu(tree, f"0000:8f:00.{function}")
    read: list[str] = []
    monkeypatch.setattr(pci, "redirects", lambda config: read.append(config.parent.name))
    pci.gpus()
    assert read == [ROOT_PORT, UPSTREAM, DOWNSTREAM]


def test_gpu_on_the_root_bus_has_no_bridges(tree: Path) -> None:
    gpu(tree, "0000:00:05.0", at="devices/pci0000:00")
    assert pci.gpus()[0]["bridges"] == []


def test_driver_is_the_one_that_holds_the_device(tree: Path) -> None:
    gpu(tree, "0000:8f:00.0")
    (gpu(tree, "0000:90:00.0") / "driver").symlink_to("../../../bus/pci/drivers/vfio-pci")
    assert [found["driver"] for found in pci.gpus()] == [None, "vfio-pci"]


def test_device_without_an_iommu_group_is_told_from_one_that_is_translated(tree: Path) -> None:
    gpu(tree, "0000:8f:00.0")
    write(gpu(tree, "0000:90:00.0") / "iommu_group", type="DMA-FQ")
    (gpu(tree, "0000:91:00.0") / "iommu_group").mkdir()
    kinds = [found["iommu"] for found in pci.gpus()]
    assert kinds[:2] == [None, "DMA-FQ"]
    assert "unmeasured" in kinds[2]


def test_errors_are_the_totals(tree: Path) -> None:
    counts = {"aer_dev_correctable": "RxErr 2\nBadTLP 1\nTOTAL_ERR_COR 3"}
    counts["aer_dev_fatal"] = "Undefined 0"
    write(gpu(tree, "0000:8f:00.0"), **counts)
    errors = pci.gpus()[0]["aer"]
    assert (errors["correctable"], errors["nonfatal"]) == (3, None)
    assert "unmeasured" in errors["fatal"]


def test_unsupported_requests_are_told_from_other_nonfatal_errors(tree: Path) -> None:
    nonfatal = "CmpltTO 1\nUnsupReq 2\nTOTAL_ERR_NONFATAL 3"
    write(gpu(tree, "0000:8f:00.0"), aer_dev_nonfatal=nonfatal)
    write(gpu(tree, "0000:90:00.0"), aer_dev_nonfatal="TOTAL_ERR_NONFATAL 3")
    first, second = (found["aer"] for found in pci.gpus())
    assert (first["nonfatal"], first["unsupported_requests"]) == (3, 2)
    assert "unmeasured" in second["unsupported_requests"]


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (capabilities((0x1, 0), (0xD, 0x1D)), True),
        (capabilities((0x1, 0), (0xD, 0x04)), True),
        (capabilities((0xD, 0x08)), True),
        (capabilities((0x1, 0), (0xD, 0x13)), False),
        (capabilities((0x1, 0xFF)), None),
        (bytes(4096), None),
        (bytes(256), None),
    ],
)
def test_acs_is_walked_to_in_configuration_space(
    tmp_path: Path, space: bytes, expected: bool | None
) -> None:
    (tmp_path / "config").write_bytes(space)
    assert pci.redirects(tmp_path / "config") is expected


def test_capability_list_that_runs_in_a_circle_ends(tmp_path: Path) -> None:
    space = bytearray(capabilities((0x1, 0), (0x2, 0)))
    struct.pack_into("<I", space, 0x140, 0x2 | 1 << 16 | 0x100 << 20)
    (tmp_path / "config").write_bytes(space)
    assert pci.redirects(tmp_path / "config") is None


def test_acs_of_a_device_that_is_gone_is_not_called_absent(tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(b"\xff" * 4096)
    with pytest.raises(OSError, match="does not answer"):
        pci.redirects(tmp_path / "config")


def test_plain_user_cannot_tell_acs(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = gpu(tree, "0000:8f:00.0")
    (device.parent / "config").write_bytes(capabilities((0xD, 0)))
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, n, at: real(fd, n, at) if at + n <= 64 else b"")
    assert "needs root" in pci.gpus()[0]["bridges"][-1]["acs"]["unmeasured"]


def test_switch_management_ports_are_told_from_network_ports(tree: Path) -> None:
    nic(tree, "mlx5_10", "0000:10:00.0", vpd="SMDL=SW_MNG")
    nic(tree, "mlx5_9", "0000:19:00.0", vpd="ConnectX-7")
    nics = pci.nics()
    assert [nic["name"] for nic in nics] == ["mlx5_9", "mlx5_10"]
    assert [nic["switch_management"] for nic in nics] == [False, True]
    assert [nic["vital_product_data"] for nic in nics] == [True, True]
    assert nics[0]["bridges"] == ["0000:0f:01.0"]


def test_device_without_vital_product_data_is_no_switch_port(tree: Path) -> None:
    nic(tree, "mlx5_0", "0000:10:00.0")
    assert pci.nics()[0]["switch_management"] is False
    assert pci.nics()[0]["vital_product_data"] is False


def test_vital_product_data_is_read_once_and_again_where_that_failed(tree: Path) -> None:
    bus, entry = pci.Bus(), nic(tree, "mlx5_0", "0000:10:00.0")
    write(entry / "ports/1", state="4: ACTIVE")
    data = entry.resolve() / "device/vpd"
    data.mkdir()
    assert "unmeasured" in bus.nics()[0]["switch_management"]
    data.rmdir()
    data.write_text("SMDL=SW_MNG")
    assert bus.nics()[0]["switch_management"] is True
    data.write_text("")
    write(entry / "ports/1", state="1: DOWN")
    found = bus.nics()[0]
    assert (found["switch_management"], found["ports"][0]["state"]) == (True, "DOWN")
    (entry / "device").unlink()
    (tree / "class/infiniband/mlx5_0").rename(tree / "class/infiniband/mlx5_1")
    assert "unmeasured" in bus.nics()[0]["address"]


def test_ports_say_state_rate_and_layer(tree: Path) -> None:
    entry = nic(tree, "mlx5_0", "0000:10:00.0")
    up = {"state": "4: ACTIVE", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"}
    write(entry / "ports/10", **up, cap_mask="0x2651ec48")
    write(entry / "ports/2", state="1: DOWN", rate="2.5 Gb/sec (1X SDR)")
    found: list[dict[str, Any]] = pci.nics()[0]["ports"]
    down = found[0]
    assert (down["number"], down["state"], down["rate_gbps"]) == (2, "DOWN", 2.5)
    assert "unmeasured" in down["link_layer"]
    expected = {"number": 10, "state": "ACTIVE", "rate_gbps": 400, "link_layer": "InfiniBand"}
    assert found[1] == {**expected, "sm_disabled": True}
    assert "unmeasured" in down["sm_disabled"]


@pytest.mark.parametrize(
    ("mask", "disabled"), [("0x2651e848", False), ("0x00000400", True), ("0xa651e84a", False)]
)
def test_port_says_whether_a_subnet_manager_may_run_on_it(
    tree: Path, mask: str, disabled: bool
) -> None:
    entry = nic(tree, "mlx5_0", "0000:10:00.0")
    write(entry / "ports/1", cap_mask=mask)
    assert pci.nics()[0]["ports"][0]["sm_disabled"] is disabled


def test_machine_without_infiniband_has_no_ports(tree: Path) -> None:
    assert pci.nics() == []


@pytest.mark.parametrize(
    ("control", "expected"), [(0x00, 128), (0x2F, 256), (0x5F, 512), (None, None)]
)
def test_payload_is_that_of_the_express_capability(
    tmp_path: Path, control: int | None, expected: int | None
) -> None:
    space = bytearray(256)
    struct.pack_into("<H", space, 0x06, 0x10)
    struct.pack_into("<B", space, 0x34, 0x40)
    struct.pack_into("<BB", space, 0x40, 0x05, 0x60)  # MSI, then PCI Express
    struct.pack_into("<BB", space, 0x60, 0x09 if control is None else 0x10, 0x40)  # and back
    struct.pack_into("<B", space, 0x68, control or 0)
    (tmp_path / "config").write_bytes(space)
    assert pci.payload(tmp_path / "config") == expected
    (tmp_path / "config").write_bytes(space[:64])
    with pytest.raises(PermissionError):
        pci.payload(tmp_path / "config")
