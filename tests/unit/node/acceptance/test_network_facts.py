"""A port's facts out of sysfs and of what other programs print; what is absent is a fact."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from b200kit.node.acceptance import network_facts
from b200kit.node.acceptance.network_facts import Run, neighbour, pfc, physical, port
from tests.subtests import in_subtests

DATA = Path(__file__).parents[3] / "data/acceptance"
MSTLINK = (DATA / "mstlink-4.21.json").read_text("utf-8")
LLDP = (DATA / "lldpctl-json0.json").read_text("utf-8")
PFC = json.dumps({"pfc_cap": 8, "delay": 7, "prio_pfc": [n == 3 for n in range(8)]})
V4 = "0000:0000:0000:0000:0000:ffff:0a00:0001"
V6 = "2001:0db8:0000:0000:0000:0000:0000:0001"
LINK_LOCAL = "fe80:0000:0000:0000:a288:c2ff:fe12:3456"
ASKED = {"rail": 3, "hca": "mlx5_0", "hca_port": 1}

FILES = {
    "ports/1/state": "4: ACTIVE",
    "ports/1/phys_state": "5: LinkUp",
    "ports/1/rate": "400 Gb/sec (4X NDR)",
    "ports/1/link_layer": "Ethernet",
    # v1 and v2 of each address, in no order that anybody could rely on; the last is of a VLAN.
    "ports/1/gids/0": LINK_LOCAL, "ports/1/gid_attrs/types/0": "IB/RoCE v1",
    "ports/1/gids/1": LINK_LOCAL, "ports/1/gid_attrs/types/1": "RoCE v2",
    "ports/1/gids/2": V4, "ports/1/gid_attrs/types/2": "IB/RoCE v1",
    "ports/1/gids/11": V4, "ports/1/gid_attrs/types/11": "RoCE v2",
    "ports/1/gids/4": V4, "ports/1/gid_attrs/types/4": "RoCE v2",
    "ports/1/gids/3": V6, "ports/1/gid_attrs/types/3": "RoCE v2",
    **{f"ports/1/gid_attrs/ndevs/{n}": "ens1" for n in (0, 1, 2, 3, 11)},
    "ports/1/gid_attrs/ndevs/4": "ens1.100",
    "ports/1/counters/symbol_error": "4",
    "ports/1/hw_counters/out_of_sequence": "2",
    "ports/1/hw_counters/lifespan": "n/a",
    "fw_ver": "28.43.2026",
    "node_guid": "a088:c203:0012:3456",
}  # fmt: skip
PCI = {
    "current_link_speed": "32.0 GT/s PCIe", "current_link_width": "16",
    "max_link_speed": "32.0 GT/s PCIe", "max_link_width": "16",
}  # fmt: skip
NET = {"mtu": "9000"}
MLNX = {f"ecn/roce_{role}/enable/{n}": str(int(n == 3)) for role in ("np", "rp") for n in range(8)}


def fill(folder: Path, files: Mapping[str, str]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{content}\n", encoding="utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    device = tmp_path / "sys/class/infiniband/mlx5_0"
    fill(device, FILES)
    pci = tmp_path / "sys/devices/pci0000:00/0000:1b:00.0"
    fill(pci, PCI)
    (device / "device").symlink_to(pci)
    fill(tmp_path / "sys/class/net/ens1", NET)
    return tmp_path


def tools(**said: str) -> Run:
    """Programs that print this; another one is not installed."""

    def run(argv: list[str]) -> str:
        if argv[0] not in said:
            raise FileNotFoundError(argv[0])
        return said[argv[0]]

    return run


ALL = tools(mstlink=MSTLINK, lldpctl=LLDP, dcb=PFC)


def test_everything_of_a_port_by_its_interface(root: Path) -> None:
    found = port(ASKED, root, ALL)
    assert (found["rail"], found["interface"], found["there"]) == (3, "ens1", True)
    assert (found["state"], found["physical_state"]) == ("ACTIVE", "LinkUp")
    assert (found["rate_gbit"], found["mtu"], found["pfc"]) == (400.0, 9000, [3])
    assert found["counters"] == {"symbol_error": 4, "out_of_sequence": 2}
    assert (found["pcie_current_width"], found["pcie_max_speed"]) == ("16", "32.0 GT/s PCIe")
    assert found["neighbour"] == {"switch": "leaf-03", "port": "swp1", "description": "to n01"}
    assert found["physical"]["module"]["serial"] == "MT2345FT00001"
    assert json.loads(json.dumps(found)) == found


def test_gid_is_found_by_type_and_address_and_never_by_its_number(root: Path) -> None:
    assert port(ASKED, root, ALL)["gid"] == {"index": 11, "type": "RoCE v2", "address": V4}
    at = root / "sys/class/infiniband/mlx5_0/ports/1"
    (at / "gid_attrs/types/11").unlink()
    assert port(ASKED, root, ALL)["gid"]["index"] == 3
    (at / "gid_attrs/types/3").unlink()
    assert port(ASKED, root, ALL)["gid"]["index"] == 1
    (at / "gid_attrs/types/1").unlink()
    assert port(ASKED, root, ALL)["gid"] is None
    (at / "link_layer").write_text("InfiniBand\n", encoding="utf-8")
    assert port(ASKED, root, ALL)["gid"] == {"index": 0, "type": "IB", "address": LINK_LOCAL}


def test_programs_that_are_not_there_leave_their_readings_unmeasured(root: Path) -> None:
    found = port(ASKED, root, tools())
    for key in ("physical", "pfc", "trust", "neighbour"):
        assert "unmeasured" in found[key]
    assert found["ecn"] is None


def test_the_vendors_files_are_taken_before_dcb(root: Path) -> None:
    fill(root / "sys/class/net/ens1", {"qos/trust": "qos trust state: dscp", **MLNX})
    found = port(ASKED, root, ALL)
    assert (found["trust"], found["ecn"]) == ("dscp", {"np": [3], "rp": [3]})


@in_subtests(
    ("said", "expected"),
    [('{"dscp_prio":[[26,3]]}', "dscp"), ('{"default_prio":[0]}', "pcp"), ("{}", "pcp")],
)
def test_the_kernels_own_driver_trusts_dscp_once_it_has_a_table(said: str, expected: str) -> None:
    assert network_facts.trust(Path("/nowhere"), "ens1", tools(dcb=said)) == expected


def test_a_device_or_port_that_is_not_there(root: Path) -> None:
    assert port({"rail": 1, "hca": "mlx5_9"}, root, ALL)["there"] is False
    assert port(ASKED | {"hca_port": 2}, root, ALL)["there"] is False


@in_subtests("said", [MSTLINK[:-200], "{}", '{"result": {"output": {"Operational Info": {}}}}', ""])
def test_half_a_report_of_the_link_is_none(said: str) -> None:
    with pytest.raises((ValueError, LookupError)):
        physical(said)


def test_figures_of_the_link_that_there_are_not() -> None:
    found = physical(MSTLINK.replace('"15E-255"', '"N/A"').replace('"Raw Physical BER"', '"Other"'))
    assert (found["effective_ber"], found["raw_ber"]) == (None, None)
    assert physical(MSTLINK)["effective_ber"] < 1e-200


@in_subtests("said", ['{"lldp": [{}]}', '{"lldp": []}', "{}", LLDP.replace("ens1", "ens2")])
def test_nobody_was_heard(said: str) -> None:
    assert neighbour(said, "ens1") is None


def test_a_switch_without_a_name_is_known_by_its_id() -> None:
    found = neighbour(LLDP.replace('"name": [{"value": "leaf-03"}],', ""), "ens1")
    assert found
    assert found["switch"] == "b8:ce:f6:00:00:03"


def test_flow_control_of_fewer_priorities_than_there_are_is_none() -> None:
    with pytest.raises(ValueError, match="2 priorities"):
        pfc('{"prio_pfc": [false, true]}')
