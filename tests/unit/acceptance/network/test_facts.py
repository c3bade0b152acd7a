"""Ports as the site declares them: each reading that is another is found, absent is never well."""

from __future__ import annotations

from typing import Any

from b200kit.acceptance.network import CHECKS, facts
from b200kit.acceptance.network.facts import findings, growth, twins
from b200kit.inventory.keys.rails import Rail
from tests.subtests import in_subtests
from tests.unit.acceptance.network.ports import RAIL, port

GONE = {"unmeasured": "no such file"}


def judged(entry: dict[str, Any], rail: Rail = RAIL) -> list[tuple[str, str]]:
    return [
        (f.check.partition(".")[2], f.status.value)
        for f in findings("n01", [rail], {"ports": [entry]})
    ]


@in_subtests(
    ("path", "value", "expected"),
    [
        ("", None, ("port", "pass")),
        ("there", False, ("port", "fail")),
        ("state", "DOWN", ("link", "fail")),
        ("state", GONE, ("link", "unmeasured")),
        ("physical_state", "Polling", ("link", "fail")),
        ("rate_gbit", 200.0, ("rate", "fail")),
        ("mtu", 1500, ("mtu", "fail")),
        ("neighbour.switch", "leaf-04", ("neighbour", "fail")),
        ("neighbour.port", "swp7", ("neighbour", "fail")),
        ("trust", "pcp", ("trust", "fail")),
        ("trust", None, ("trust", "fail")),
        ("pfc", [], ("pfc", "fail")),
        ("pfc", [3, 4], ("pfc", "fail")),
        ("gid", None, ("gid", "fail")),
        ("gid", GONE, ("gid", "unmeasured")),
        ("pcie_current_speed", "16.0 GT/s PCIe", ("pcie", "fail")),
        ("pcie_current_width", "8", ("pcie", "fail")),
        ("physical", GONE, ("ber", "unmeasured")),
        ("physical.effective_ber", 1e-9, ("port", "pass")),  # of no error, it is none
    ],
)
def test_a_port_is_held_to_what_is_declared(
    path: str, value: object, expected: tuple[str, str]
) -> None:
    assert expected in (found := judged(port(path, value)))
    assert len({check for check, _ in found}) == 1


def test_errors_that_fec_left_over_the_limit_are_the_links_fault() -> None:
    bad = port("physical.effective_errors", 7)
    bad["physical"]["effective_ber"] = 1e-9
    assert judged(bad) == [("ber", "fail")]
    bad["physical"]["effective_ber"] = 1e-15
    assert judged(bad) == [("port", "pass")]


def test_what_the_site_does_not_declare_is_not_judged() -> None:
    rail = Rail(rail=0, hca="mlx5_0", gbit=400, lossless=False)
    bare = port("mtu", GONE) | {"neighbour": None, "trust": GONE, "pfc": GONE}
    assert judged(bare, rail) == [("port", "pass")]


def test_no_neighbour_is_no_right_neighbour() -> None:
    assert judged(port("neighbour", None)) == [("neighbour", "unmeasured")] * 2


def test_a_rail_that_the_node_says_nothing_of_is_unmeasured() -> None:
    assert judged(port("rail", 1)) == [("port", "unmeasured")]
    assert [f.status.value for f in findings("n01", [RAIL], "what")] == ["unmeasured"]


@in_subtests(
    ("path", "value", "expected"),
    [
        ("", None, "pass"),
        ("counters.port_xmit_data", 99, "pass"),
        ("counters.symbol_error", 5, "fail"),
        ("counters.symbol_error", 3, "unmeasured"),
        ("counters", GONE, "unmeasured"),
        ("physical.effective_errors", 1, "fail"),
        ("physical", GONE, "pass"),
    ],
)
def test_errors_count_as_what_they_grew_by(path: str, value: object, expected: str) -> None:
    found = list(growth("n01", [RAIL], {"ports": [port()]}, {"ports": [port(path, value)]}))
    assert [each.status.value for each in found] == [expected]


def test_two_adapters_with_one_guid_are_found_in_a_fleet() -> None:
    other = port("guid", "a088:c203:0012:9999")
    assert list(twins({"n01": {"ports": [port()]}, "n02": {"ports": [other]}})) == []
    found = list(twins({"n01": {"ports": [port()]}, "n02": {"ports": [port()]}}))
    assert [each.check for each in found] == ["network.guid"]


def test_every_check_of_a_port_is_explained() -> None:
    assert {f"network.{row.check}" for row in facts._ROWS} <= {*CHECKS}
