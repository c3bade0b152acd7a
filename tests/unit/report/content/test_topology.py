"""The graph of a node: healthy is good, each fault turns its own edge, the unread is unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from b200kit.node.checks.judge import judge
from b200kit.node.lib.documents import unstructure
from b200kit.report.content import facts
from b200kit.report.content.graph import BAD, GOOD, UNKNOWN, Topology
from b200kit.report.content.topology import topology
from b200kit.report.terminal.topology_matrix import topology_is_in_doubt, topology_lines
from tests.subtests import in_subtests
from tests.unit import paths, states

State = dict[str, Any]
GONE = {"unmeasured": "timed out"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


def graph(spoil: Callable[[State], object] = lambda state: None) -> Topology:
    """The graph of the healthy node after a fault."""
    state = states.healthy()
    spoil(state)
    return topology(state, states.expectation())


def pair(found: Topology, a: int, b: int) -> tuple[str, str]:
    """What the P2P of a pair says, and its tone."""
    return found.pairs[a, b].text, found.pairs[a, b].tone


def test_healthy_nodes_have_no_edge_that_is_not_good() -> None:
    for name in ("healthy-hgx-b200", "healthy-snc2-four-nodes"):
        found = topology(states.recorded(name), states.expectation())
        assert found.tone == GOOD
        assert {pair.text for pair in found.pairs.values()} == {"NV18"}


SINGLE: dict[str, dict[str, Any]] = {
    "as recorded": {},
    "links down": {"links[*].state": 0, "links[*].speed_mbps": 0},
    "fabric not supported": {"fabric.state": 0, "fabric.status": 3, "fabric.health_summary": 0},
    "links unread": {"links": GONE},
}


@in_subtests("name", SINGLE)
def test_what_does_not_apply_to_the_hardware_is_not_bad(name: str) -> None:
    """A card by itself has no peer: its links and its fabric may be as they like."""
    state, expectation = states.recorded("healthy-single-b200"), states.expectation("single")
    expectation |= {"gpu_count": 1, "driver": None}
    for place, value in SINGLE[name].items():
        for path in paths.matching(state, paths.parse(f"gpus[0].{place}")):
            paths.put(state, path, value)
    found = topology(state, expectation)
    assert judge(expectation, state).fit == "fit"
    assert (found.tone, found.gpus[0].nvlink_tone) == (GOOD, GOOD)
    assert not topology_is_in_doubt(found)
    assert "!" not in "".join(topology_lines(found))


def test_colours_are_those_of_the_verdict_in_the_record() -> None:
    state, expectation = states.healthy(), states.expectation()
    state["gpus"][3]["links"][7]["state"] = 0
    waiver = {"check": "nvlink.links", "owner": "o", "reason": "r", "until": "2026-12-01"}
    verdict = unstructure(judge({**expectation, "waivers": [waiver]}, state))
    assert topology(state, expectation).gpus[3].tone == BAD
    assert topology(state, expectation, verdict).gpus[3].tone == UNKNOWN


@in_subtests("base", ["healthy-hgx-b200", "healthy-snc2-four-nodes"])
def test_fault_of_all_gpus_is_bad_at_each(base: str) -> None:
    state = states.recorded(base)
    for gpu in state["gpus"]:
        gpu["fabric"]["state"] = 2
    found = topology(state, states.expectation())
    assert {gpu.fabric.tone for gpu in found.gpus} == {BAD}
    assert {gpu.links.tone for gpu in found.gpus} == {GOOD}


def test_slow_links_are_those_below_the_floor_and_no_others() -> None:
    def slow(state: State) -> None:
        links = state["gpus"][3]["links"]
        links[5]["speed_mbps"], links[7]["speed_mbps"] = 10_000, GONE
        links[8]["speed_mbps"] -= 1
        for link in state["gpus"][4]["links"]:
            link["speed_mbps"] = 10_000

    found = graph(slow)
    assert found.gpus[3].links.slow == (5,)
    assert found.gpus[4].links.slow == tuple(range(18))


def test_fault_on_the_bus_is_bad_at_a_gpu_of_which_nvml_does_not_say_the_address() -> None:
    def unknown(state: State) -> None:
        state["gpus"][3]["pci_address"] = GONE
        state["pci"]["gpus"][3] |= {"current_link_width": 8, "numa_node": 9}

    gpu = graph(unknown).gpus[3]
    assert (gpu.lanes[-1].tone, gpu.numa_tone) == (BAD, BAD)


def test_cut_fabric_is_bad_between_its_halves_and_good_inside() -> None:
    def cut(state: State) -> None:
        for a in range(8):
            for b in range(8):
                if (a < 4) != (b < 4):
                    state["p2p"]["read"][a][b] = 3

    found = graph(cut)
    tones = {(a < 4) == (b < 4): pair.tone for (a, b), pair in found.pairs.items()}
    assert tones == {True: GOOD, False: BAD}


def test_nearest_nics_are_those_at_the_same_switch_and_never_the_switches_own() -> None:
    found = graph()
    assert [(gpu.nics, gpu.nic_path) for gpu in found.gpus[:3]] == [
        (("mlx5_4", "mlx5_7"), "PIX"),
        (("mlx5_4", "mlx5_7"), "PIX"),
        (("mlx5_8", "mlx5_9"), "PIX"),
    ]
    assert {nic.name for nic in found.management} == {f"mlx5_{n}" for n in range(4)}
    assert not {n.name for n in found.management} & {name for g in found.gpus for name in g.nics}


def test_without_a_common_bridge_the_nearest_nics_are_those_of_the_numa_node() -> None:
    def cut(state: State) -> None:
        state["pci"]["gpus"][0]["bridges"][0]["address"] = "0000:01:01.0"

    gpu = graph(cut).gpus[0]
    assert (gpu.nic_path, "mlx5_12" in gpu.nics) == ("NODE", False)


def test_lost_link_is_an_edge_and_every_pair_of_its_gpu() -> None:
    found = graph(lambda s: s["gpus"][3]["links"][7].update(state=0))
    gpu = found.gpus[3]
    assert (gpu.links.text, gpu.fabric.text, gpu.nvlink_tone) == ("17/18", "completed", BAD)
    assert found.gpus[3].links.down == (7,)
    assert pair(found, 0, 3) == ("NV17", BAD)
    assert pair(found, 0, 1) == ("NV18", GOOD)


FAULTS: dict[str, tuple[Callable[[State], object], int, str]] = {
    "slow link": (lambda s: s["gpus"][5]["links"][2].update(speed_mbps=26000), 5, BAD),
    "links unread": (lambda s: s["gpus"][5].update(links=GONE), 5, UNKNOWN),
    "no link": (lambda s: s["gpus"][5].update(links=[]), 5, BAD),
    "fabric status": (lambda s: s["gpus"][5]["fabric"].update(status=23), 5, BAD),
    "narrow GPU": (lambda s: s["gpus"][5]["pcie"].update(width=8), 5, BAD),
    "narrow port": (
        lambda s: s["pci"]["gpus"][5]["bridges"][2].update(current_link_width=8), 5, BAD
    ),
    "slow port": (
        lambda s: s["pci"]["gpus"][5]["bridges"][2].update(max_link_speed="16.0 GT/s PCIe"), 5, BAD
    ),
    "port unread": (
        lambda s: s["pci"]["gpus"][5]["bridges"][2].update(current_link_width=GONE), 5, UNKNOWN
    ),
    "bus without NUMA": (lambda s: s["pci"]["gpus"][5].update(numa_node=-1), 5, UNKNOWN),
}  # fmt: skip


@in_subtests("name", FAULTS)
def test_fault_of_one_gpu_shows_at_that_gpu_alone(name: str) -> None:
    spoil, position, tone = FAULTS[name]
    found = graph(spoil)
    assert found.gpus[position].tone == tone
    others = [gpu.tone for n, gpu in enumerate(found.gpus) if n != position]
    assert set(others) == {GOOD}
    assert found.tone == tone


def test_dead_and_unread_pairs_are_told_apart() -> None:
    def spoil(state: State) -> None:
        state["p2p"]["read"][0][1] = 3
        state["p2p"]["write"][0][2] = GONE

    found = graph(spoil)
    assert pair(found, 0, 1) == ("x", BAD)
    assert pair(found, 0, 2) == ("--", UNKNOWN)
    assert pair(found, 1, 0) == ("NV18", GOOD)


def test_missing_gpu_makes_the_graph_bad() -> None:
    def pull(state: State) -> None:
        state["gpus"].pop()
        state["pci"]["gpus"].pop()

    found = graph(pull)
    assert (found.missing, found.tone) == (1, BAD)


def lose(state: State, *positions: int) -> None:
    """What NVML says of GPUs that fell off the bus: it counts them, and tells nothing of them."""
    gone = {"unmeasured": "GPU is lost (15)"}
    for position in positions:
        entry = state["gpus"][position]
        state["gpus"][position] = {**dict.fromkeys(entry, gone), "index": position}


@in_subtests("lost", [(0,), (5,), (7,), (2, 3), (0, 4, 7), tuple(range(8))])
def test_gpu_that_fell_off_the_bus_is_counted_once_and_where_it_is(lost: tuple[int, ...]) -> None:
    found, whole = graph(lambda state: lose(state, *lost)), graph()
    assert [gpu.address for gpu in found.gpus] == [gpu.address for gpu in whole.gpus]
    assert [gpu.numa for gpu in found.gpus] == [gpu.numa for gpu in whole.gpus]
    assert (found.missing, found.tone) == (0, UNKNOWN)
    silent = f"({len(lost)} GPU{'s' * (len(lost) > 1)} unmeasured)"
    told = f"{18 * (8 - len(lost))}/144 links up {silent}"
    every = "unmeasured: no GPU reported the state of its links"
    assert facts.links_line(found) == (every if len(lost) == 8 else told)


@in_subtests(("left", "count"), [(8, 8), (7, 8), (6, 8)])
def test_gpu_that_the_bus_does_not_show_either_is_counted_once(left: int, count: int) -> None:
    def spoil(state: State) -> None:
        lose(state, 5, 6)
        state["pci"]["gpus"] = state["pci"]["gpus"][:left]

    assert len(graph(spoil).gpus) == count


def test_without_an_expectation_nothing_is_good() -> None:
    found = topology(states.healthy(), None)
    assert found.tone == UNKNOWN
    assert {gpu.nvlink_tone for gpu in found.gpus} == {UNKNOWN}
    assert {lane.tone for gpu in found.gpus for lane in gpu.lanes} == {UNKNOWN}
    assert {pair.tone for pair in found.pairs.values()} == {UNKNOWN}


@given(JSON, st.sampled_from(["gpus", "pci", "p2p", "numa"]))
def test_any_json_gives_a_graph_and_a_matrix(value: Any, key: str) -> None:
    state = states.healthy() | {key: value}
    for seen, wanted in ((state, states.expectation()), (value, value)):
        found = topology(seen, wanted)
        topology_is_in_doubt(found)
        assert max(map(len, topology_lines(found, indent=4))) <= 100


def test_matrix_points_at_the_gpu_without_nvlink() -> None:
    found = topology(states.recorded("gpu2-no-nvlink"), states.expectation())
    lines = topology_lines(found)
    assert [line[2:6] for line in lines if line.startswith(">")] == ["GPU2", "GPU2"]
    assert sum(line.count("NV0!") for line in lines) == 14
    assert not topology_is_in_doubt(graph())
    assert topology_is_in_doubt(found)
