"""What the simulated hardware shows, as trees of files; nothing is mounted here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from b200kit.node.facts import kernel as node_kernel
from b200kit.node.facts import pci as node_pci
from tests.lab.firmware.lab_firmware import (
    infiniband,
    nvml,
    pci,
    procfs,
    settings,
    tree,
)
from tests.lab.hardware.scenario import render
from tests.lab.hardware.scenario_shape import ScenarioError
from tests.messages import raises_message


@pytest.fixture(scope="module")
def healthy() -> dict[str, Any]:
    """The healthy scenario on a machine of four CPUs."""
    return render("healthy", 4)


def put(root: Path, name: str, text: str) -> None:
    """A configuration file below `root`."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def shown(root: Path, scenario: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The node's /sys as the node program reads it."""
    tree.write(root / "bus/pci", pci.tree(scenario, None))
    tree.write(root / "class/infiniband", infiniband.devices(scenario["nics"]))
    for nic in scenario["nics"]:
        link = root / "class/infiniband" / nic["name"] / "device"
        link.unlink()
        link.symlink_to(root / "bus/pci/devices" / nic["pci_address"])
    monkeypatch.setattr(node_pci, "SYS", root)
    return root


def test_node_program_reads_the_bridges_of_the_scenario(
    tmp_path: Path, healthy: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown(tmp_path, healthy, monkeypatch)
    gpus, nics = node_pci.gpus(), {nic["name"]: nic for nic in node_pci.nics()}
    for gpu, place in zip(gpus, healthy["gpus"], strict=True):
        assert [bridge["address"] for bridge in gpu["bridges"]] == place["bridges"]
    links = {(b["current_link_speed"], b["max_link_width"]) for g in gpus for b in g["bridges"]}
    assert links == {("32.0 GT/s PCIe", 16)}
    assert {bridge["acs"] for gpu in gpus for bridge in gpu["bridges"]} == {False}
    shared = [bridge["address"] for bridge in gpus[1]["bridges"][:2]]
    assert nics["mlx5_7"]["bridges"][:2] == shared
    ports = [{"number": 1, "state": "ACTIVE", "rate_gbps": 400, "link_layer": "InfiniBand"}]
    ports[0]["sm_disabled"] = False
    assert [nic["ports"] for nic in nics.values()] == [ports] * 16


def test_faults_of_bridges_and_ports_are_read_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = {"pcie": {"generation": 3, "width": 8}}
    change = {
        "extends": "acs-on",
        "bridges": {"0000:4d:00.0": narrow, "0000:4e:01.0": {"acs": False}},
        "gpus": {3: {"aer": {"correctable": 7}}},
        "nics": {"mlx5_4": {"port": {"state": "DOWN", "rate_gbps": 10}}},
    }
    put(tmp_path, "mine.yaml", yaml.safe_dump(change))
    shown(tmp_path / "sys", render(str(tmp_path / "mine.yaml"), 2), monkeypatch)
    gpus, nics = node_pci.gpus(), node_pci.nics()
    root, switch, port = gpus[3]["bridges"]
    assert (switch["current_link_speed"], switch["current_link_width"]) == ("8.0 GT/s PCIe", 8)
    assert root["current_link_width"] == 16
    assert [bridge["acs"] for bridge in (root, switch, port)] == [True, True, False]
    assert (gpus[2]["aer"]["correctable"], gpus[3]["aer"]["correctable"]) == (0, 7)
    down = next(nic for nic in nics if nic["name"] == "mlx5_4")["ports"][0]
    assert (down["state"], down["rate_gbps"]) == ("DOWN", 10)


@pytest.mark.parametrize(
    "bridges",
    [
        {"0000:99:1f.0": {}},
        {"0000:4d:00.0": {"pcie": {"generation": 9}}},
        {"0000:4d:00.0": {"acss": True}},
    ],
)
def test_impossible_bridge_is_refused_in_one_line(tmp_path: Path, bridges: dict[str, Any]) -> None:
    put(tmp_path, "mine.yaml", json.dumps({"extends": "healthy", "bridges": bridges}))
    with raises_message(ScenarioError):
        render(str(tmp_path / "mine.yaml"), 2)


def test_kernel_settings_are_what_the_node_program_reads(
    tmp_path: Path, healthy: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.write(tmp_path / "devices/system/cpu/cpufreq", settings.cpufreq(healthy))
    tree.write(tmp_path / "kernel/mm/transparent_hugepage", settings.huge_pages(healthy))
    tree.write(tmp_path / "proc/sys", settings.sysctls(healthy))
    driver = procfs.driver_tree(healthy, "580.126.20", {"NVreg_NvLinkDisable": "1"})
    tree.write(tmp_path / "proc/driver", driver)
    monkeypatch.setattr(node_kernel, "SYS", tmp_path)
    monkeypatch.setattr(node_kernel, "PROC", tmp_path / "proc")
    found = node_kernel.kernel()
    assert found["governors"] == {"performance": 4}
    assert (found["transparent_hugepages"], found["numa_balancing"]) == ("madvise", 0)
    assert found["driver_options"]["NvLinkDisable"] == "1"
    assert found["driver_options"]["RmNvlinkBandwidthLinkCount"] == "0"


def test_later_fault_waits_for_its_boot_and_second(healthy: dict[str, Any]) -> None:
    later = [{"boot": 2, "after_s": 30, "nvml": {"gpu.1.lost": "1"}}]
    node = {**healthy, "later": later}
    assert "gpu.1.lost" not in nvml.conf(node, "580.126.20", {}, 1, 1000.0)
    assert "@1030 gpu.1.lost=1\n" in nvml.conf(node, "580.126.20", {}, 2, 1000.9)
