"""Every scenario that is stuck on the way to a fabric: the state it stands in, and who says so.

The node is made of what the firmware would show of the scenario, read by the node program's own
readers, and of NVML as the stand-in answers; only the units are as the fabric manager leaves them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.checks.judge import judge
from b200kit.node.fabric import sequence
from b200kit.node.fabric.states import PERSISTENCE, STATES
from b200kit.node.facts import fabric_manager, pci
from b200kit.node.facts.nvml.client import Worker
from b200kit.node.state.mend import MANAGER
from tests.lab.firmware.lab_firmware import infiniband, modules, site, tree
from tests.lab.firmware.lab_firmware import pci as shown
from tests.lab.hardware import scenario, shim_build
from tests.unit import node_schema, states
from tests.unit.lab.shim_kit import write_conf
from tests.unit.node.fabric.test_sequence import expectation

DRIVER = "580.105.08"
"""Of the recorded states, whose packages go with it."""
NVLSM = site.NVLSM
# Scenario to the state in which it is stuck.
STUCK = {
    "seven-gpus": "gpus on the bus",
    "bring-up-driver-forbidden": "driver",
    "gpu-lost": "driver",
    "bring-up-no-mlx5-ib": "mlx5",
    "bring-up-ib-umad-forbidden": "ib_umad",
    "bring-up-no-management-port": "management port",
    "bring-up-ports-sm-disabled": "management port",
    "bring-up-nvlsm-gone": "nvlsm",
    "bring-up-other-manager": "versions",
    "bring-up-persistenced-fails": "persistence daemon",
    "bring-up-manager-fails": "fabric manager",
    "bring-up-manager-dies": "fabric manager",
    "bring-up-manager-masked": "fabric manager",
    "bring-up-nvlsm-dies": "subnet manager",
    "gpu2-no-nvlink": "links",
    "seventeen-links": "links",
    "bring-up-one-gpu-waits": "registration",
    "fabric-in-progress": "registration",
    "fabric-not-success": "registration",
    "fabric-unhealthy": "registration",
    "bring-up-no-p2p": "peers",
    "one-pair-no-p2p": "peers",
}
Node = dict[str, Any]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The NVML stand-in."""
    folder = tmp_path_factory.mktemp("bring-up")
    return shim_build.compile_shim(folder / shim_build.SONAME, DRIVER)


def disk(root: Path, rendered: Node) -> Path:
    """The software of a node after its deploy, as far as a scenario changes it."""
    software = {
        modules.NVIDIA_MODULE: f"version={DRIVER}\0",
        "etc/modprobe.d/nouveau.conf": "blacklist nouveau",
        "etc/modules-load.d/b200kit.conf": "mlx5_core\nmlx5_ib\nib_umad",
        NVLSM: "#!/bin/sh",
        site.DPKG_STATUS: f"Package: nvidia-fabricmanager\nVersion: {DRIVER}-1\n",
        site.MANAGER_PROGRAM: f"#!/bin/sh\n# {DRIVER}",
        "etc/systemd/system/x": "",
    }
    tree.write(root, dict(software))
    (root / NVLSM).chmod(0o755)
    site.forbid_modules(rendered, root)
    site.take_nvlsm_away(rendered, root)
    site.change_packages(rendered, root)
    site.mask_manager(rendered, root)
    return root


def nics(root: Path, rendered: Node, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The InfiniBand devices, as the node program reads them from the firmware's files."""
    tree.write(root / "bus/pci", shown.tree(rendered, None))
    tree.write(root / "class/infiniband", infiniband.devices(rendered["nics"]))
    for nic in rendered["nics"]:
        link = root / "class/infiniband" / nic["name"] / "device"
        link.unlink()
        link.symlink_to(root / "bus/pci/devices" / nic["pci_address"])
    monkeypatch.setattr(pci, "SYS", root)
    return pci.nics()


def loaded(root: Path, rendered: Node) -> Node:
    """The modules after the boot."""
    found = modules.at_boot(root, rendered["modules"]["unavailable"])
    known = ("nvidia", "nvidia_uvm", "ib_umad", "mlx5_core", "mlx5_ib", "nouveau")
    return {name: (found[name] or True) if name in found else None for name in known}


def manager_runs(rendered: Node, state: Node) -> bool:
    """Whether the fabric manager of the scenario stays, as tests/lab/vendor has it."""
    version = state["packages"]["nvidia-fabricmanager"]["version"]
    ports = [n for n in state["pci"]["nics"] if n["switch_management"]]
    free = [n for n in ports if not n["ports"][0]["sm_disabled"]]
    hidden = not any(nic["vital_product_data"] for nic in state["pci"]["nics"])
    return (
        rendered["fabric_manager"] == "runs"
        and None not in (state["modules"][name] for name in ("nvidia", "mlx5_ib", "ib_umad"))
        and bool(free or hidden)
        and bool(state["fabric_manager"]["nvlsm_installed"])
        and version == f"{DRIVER}-1"
    )


@pytest.fixture
def booted(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], tuple[Node, Node]]:
    """A node of a scenario after its boot, and the scenario."""

    def boot(name: str) -> tuple[Node, Node]:
        rendered = scenario.render(name, 2)
        root, state = disk(tmp_path / "disk", rendered), states.ready(states.healthy())
        monkeypatch.setattr(fabric_manager, "PROGRAM", root / NVLSM)
        devices = state["pci"]["gpus"][: len(rendered["gpus"])]
        for device, gpu in zip(devices, rendered["gpus"], strict=True):
            device |= {"address": gpu["pci_address"], "numa_node": gpu["numa_node"]}
        state["pci"] = {"gpus": devices, "nics": nics(tmp_path / "sys", rendered, monkeypatch)}
        state["modules"] = loaded(root, rendered)
        state["fabric_manager"]["nvlsm_installed"] = fabric_manager.installed()
        version = (root / site.DPKG_STATUS).read_text().split("Version: ")[1].strip()
        state["packages"]["nvidia-fabricmanager"]["version"] = version
        runs = manager_runs(rendered, state)
        unit = state["units"][MANAGER]
        if not runs:
            unit |= {"active": "failed", "sub": "failed", "result": "exit-code"}
        if (root / site.MANAGER_UNIT).is_symlink():
            unit |= {"load": "masked", "active": "inactive", "sub": "dead", "enabled": "masked"}
        if rendered["persistence_daemon"] == "fails":
            gone = {"active": "failed", "sub": "failed", "result": "exit-code"}
            state["units"][PERSISTENCE] |= gone
        nvlsm = runs and not rendered["nvlsm"]["dies"]
        state["fabric_manager"]["nvlsm_running"] = nvlsm
        done = nvlsm and rendered["fabric"]["completes"]
        driver = state["modules"]["nvidia"]
        if driver is None:
            for device in devices:
                device["driver"] = None
        conf = write_conf(tmp_path / "conf", rendered["nvml"], driver, fabric_done=done)
        Path(f"{conf}.persistence").touch()
        monkeypatch.setenv("LD_LIBRARY_PATH", str(library.parent))
        monkeypatch.setenv("B200_LAB_NVML_CONF", str(conf))
        return rendered, state | Worker(20.0).result()

    return boot


Booted = Callable[[str], tuple[Node, Node]]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", STUCK)
def test_scenario_is_stuck_in_its_state_and_the_gate_says_the_same(
    name: str, booted: Booted
) -> None:
    _, state = booted(name)
    at = sequence.position(expectation(), state)
    assert at.name == STUCK[name], at.observed
    assert at.observed is not None
    first = judge(expectation(), state).blocking[0]
    assert first.summary == at.observed.summary
    line = sequence.stuck_line(at, state)
    assert line.startswith(f"stuck at {at.name}: {first.summary}")
    assert " -> " in line


@pytest.mark.parametrize("name", ["healthy", "bring-up-no-product-data"])
def test_node_that_only_hides_its_ports_comes_through(name: str, booted: Booted) -> None:
    _, state = booted(name)
    assert node_schema.problems(state) == []
    verdict = judge(expectation(), state)
    assert [finding.summary for finding in verdict.blocking] == []
    assert sequence.position(expectation(), state).name == "done"
    assert bool(sequence.hidden(expectation(), state)) is (name != "healthy")


def test_every_state_has_a_scenario_that_is_stuck_in_it() -> None:
    assert set(STUCK.values()) == {state.name for state in STATES}
    ours = {name for name in scenario.names() if name.startswith("bring-up-")}
    assert ours - {"bring-up-no-product-data"} <= set(STUCK)


def test_repair_gives_back_what_a_scenario_took(tmp_path: Path) -> None:
    root = tmp_path
    disk(root, scenario.render("bring-up-nvlsm-gone", 2))
    assert not (root / NVLSM).exists()
    site.take_nvlsm_away(scenario.render("healthy", 2), root)
    assert (root / NVLSM).exists()
    masked, healthy = scenario.render("bring-up-manager-masked", 2), scenario.render("healthy", 2)
    assert [site.mask_manager(each, root) for each in (masked, masked, healthy, healthy)] == [
        True,
        False,
        True,
        False,
    ]
    site.forbid_modules(scenario.render("bring-up-ib-umad-forbidden", 2), root)
    assert modules.forbidden(root) == {"ib_umad"}
    site.forbid_modules(healthy, root)
    assert modules.forbidden(root) == set()


def test_other_version_is_in_the_package_list_and_in_the_program(tmp_path: Path) -> None:
    disk(tmp_path, scenario.render("bring-up-other-manager", 2))
    assert "Version: 580.159.03-1\n" in (tmp_path / site.DPKG_STATUS).read_text()
    assert "580.159.03" in (tmp_path / site.MANAGER_PROGRAM).read_text()
    before = (tmp_path / site.DPKG_STATUS).read_text()
    site.change_packages(scenario.render("bring-up-other-manager", 2), tmp_path)
    assert (tmp_path / site.DPKG_STATUS).read_text() == before


def test_plain_blacklist_keeps_nobody_from_loading_a_module_by_hand(tmp_path: Path) -> None:
    tree.write(tmp_path, {"etc/modprobe.d/x.conf": "blacklist ib_umad"})
    assert modules.blacklisted(tmp_path) == {"ib_umad"}
    assert modules.forbidden(tmp_path) == set()
