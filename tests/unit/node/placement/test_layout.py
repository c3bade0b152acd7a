"""Replicas follow the NUMA map that sysfs shows, whatever its shape."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.lib import cpulist
from b200kit.node.lib.documents import unstructure
from b200kit.node.placement import layout
from b200kit.node.placement.layout import Replica, Shape, place, reserved, shared
from b200kit.node.placement.machine import LayoutError
from b200kit.stages import serving
from tests.messages import raises_message
from tests.subtests import in_subtests
from tests.unit import numa_maps
from tests.unit.nodes import settled


def plan(state: Any, replicas: int, gpus_each: int, ports: Sequence[int]) -> list[Replica]:
    """Replicas of so many GPUs by tensor parallelism."""
    return place(state, replicas, Shape(tp=gpus_each), ports)


def node(gpu_nodes: list[int], cpus: dict[int, str], siblings: list[str] | None = None) -> Any:
    """An observation with one GPU an entry of *gpu_nodes* and the given CPUs a NUMA node."""
    gpus = [
        {"index": i, "uuid": f"GPU-{i}", "pci_address": f"0000:{i:02x}:00.0"}
        for i in range(len(gpu_nodes))
    ]
    devices = [
        {"address": f"0000:{i:02x}:00.0", "numa_node": numa} for i, numa in enumerate(gpu_nodes)
    ]
    return {
        "gpus": gpus,
        "pci": {"gpus": devices},
        "numa": [{"id": number, "cpus": text} for number, text in cpus.items()],
        "cpus": {"siblings": siblings or lone(cpus)},
    }


def lone(cpus: dict[int, str]) -> list[str]:
    """Every CPU as a core of its own."""
    ranges = [part for text in cpus.values() for part in text.split(",")]
    known = [part for part in ranges if part.replace("-", "").isdecimal()]
    return [str(cpu) for part in known for cpu in cpulist.parse(part)]


TWO = node([0] * 4 + [1] * 4, {0: "0-55,112-167", 1: "56-111,168-223"})
SIX = node([0, 0, 2, 2, 3, 3, 5, 5], {n: f"{n * 24}-{n * 24 + 23}" for n in range(6)})
DESCENDING = node([7, 6, 5, 4, 3, 2, 1, 0], {n: f"{n * 8}-{n * 8 + 7}" for n in range(8)})


def test_two_replicas_take_a_socket_each_but_for_the_reserved_cores() -> None:
    first, second = plan(numa_maps.state("two"), 2, 4, (8001, 8002))
    assert (first.gpus, first.numa_nodes, first.cpus) == ((0, 1, 2, 3), (0,), "2-55,114-167")
    assert (second.gpus, second.numa_nodes, second.cpus) == ((4, 5, 6, 7), (1,), "58-111,170-223")
    assert (first.tp, first.spans) == (4, False)


def test_replicas_of_one_node_get_disjoint_cpus() -> None:
    layout = plan(TWO, 8, 1, tuple(range(8001, 8009)))
    taken = [cpu for replica in layout for cpu in cpulist.parse(replica.cpus)]
    free = cpulist.parse(reserved(TWO, layout))
    assert len(taken) == len(set(taken)) == 224 - 4
    assert not set(free) & set(taken)
    assert len(free) == 4


@in_subtests("name", numa_maps.MAPS)
@in_subtests(("replicas", "tp"), [(8, 1), (4, 2), (2, 4), (1, 8)])
def test_every_map_keeps_the_promises_of_a_layout(name: str, replicas: int, tp: int) -> None:
    state = numa_maps.state(name)
    layout = plan(state, replicas, tp, range(8001, 8001 + replicas))
    home = {g["index"]: d["numa_node"]
            for g, d in zip(state["gpus"], state["pci"]["gpus"], strict=True)}  # fmt: skip
    cores = [set(cpulist.parse(core)) for core in state["cpus"]["siblings"]]
    memory = {node["id"]: node["memory_kib"] for node in state["numa"]}
    seen: set[int] = set()
    for replica in layout:
        mine = set(cpulist.parse(replica.cpus))
        near = {cpu for node in state["numa"] if node["id"] in {home[g] for g in replica.gpus}
                for cpu in cpulist.parse(node["cpus"])}  # fmt: skip
        assert mine
        assert mine <= near, "CPUs are those of the GPUs' nodes"
        assert not mine & seen, "no CPU serves two replicas"
        assert all(core <= mine or not core & mine for core in cores), "siblings stay together"
        assert all(memory[node] for node in replica.numa_nodes), "memory comes from where some is"
        seen |= mine
    assert sorted(gpu for replica in layout for gpu in replica.gpus) == list(range(8))
    free = set(cpulist.parse(reserved(state, layout)))
    assert not free & seen
    assert all(free & set(cpulist.parse(node["cpus"])) for node in state["numa"])


@in_subtests("name", numa_maps.MAPS)
@in_subtests("tp", [2, 4])
def test_no_group_crosses_the_sockets_that_need_not(name: str, tp: int) -> None:
    # On each of these maps GPUs 0 to 3 are on the first socket, whatever their NUMA nodes.
    for replica in plan(numa_maps.state(name), 8 // tp, tp, range(8 // tp)):
        assert len({gpu // 4 for gpu in replica.gpus}) == 1


def test_group_across_nodes_takes_the_socket_that_has_enough() -> None:
    # Taking GPUs by their numbers would cross: 0 is on the first socket, 1 on the second.
    crossed = node([0, 3, 1, 2], {n: f"{n * 8}-{n * 8 + 7}" for n in range(4)})
    assert [r.gpus for r in plan(crossed, 2, 2, (1, 2))] == [(0, 2), (1, 3)]


def test_memory_of_gpus_that_is_numa_nodes_of_its_own_belongs_to_no_socket() -> None:
    # Coherent GPU memory is a NUMA node without CPUs, numbered after the others.
    cpus = {n: f"{n * 8}-{n * 8 + 7}" for n in range(4)} | dict.fromkeys((10, 18, 26), "")
    crossed = node([0, 3, 1, 2], cpus)
    assert [r.gpus for r in plan(crossed, 2, 2, (1, 2))] == [(0, 2), (1, 3)]


def test_sockets_are_the_kernels_whatever_the_numbers_of_the_nodes() -> None:
    """Firmware may number the nodes of two sockets by turns."""
    state = node([0, 0, 1, 1, 2, 2, 3, 3], {n: f"{n * 8}-{n * 8 + 7}" for n in range(4)})
    by_number = [replica.numa_nodes for replica in plan(state, 2, 4, (1, 2))]
    state["cpus"]["sockets"] = ["0-7,16-23", "8-15,24-31"]
    by_socket = [replica.numa_nodes for replica in plan(state, 2, 4, (1, 2))]
    assert (by_number, by_socket) == ([(0, 1), (2, 3)], [(0, 2), (1, 3)])
    # What a guest is shown, a socket for each CPU, says nothing.
    state["cpus"]["sockets"] = [str(cpu) for cpu in range(32)]
    assert [replica.numa_nodes for replica in plan(state, 2, 4, (1, 2))] == by_number


def test_memory_of_a_node_without_any_comes_from_the_nearest_by_distance() -> None:
    state = node([0, 1, 2, 3], {n: f"{n * 8}-{n * 8 + 7}" for n in range(4)})
    for number, entry in enumerate(state["numa"]):
        entry["memory_kib"] = 0 if number == 1 else 1 << 20
    state["cpus"]["sockets"] = ["0-31"]
    assert plan(state, 4, 1, (1, 2, 3, 4))[1].numa_nodes == (0,)
    state["numa"][1]["distances"] = [17, 10, 17, 12]
    assert plan(state, 4, 1, (1, 2, 3, 4))[1].numa_nodes == (3,)


def test_memory_of_a_node_without_any_comes_from_its_neighbour() -> None:
    layout = plan(numa_maps.state("memory-less"), 4, 2, (1, 2, 3, 4))
    assert [replica.numa_nodes for replica in layout] == [(0,), (0,), (2,), (3,)]
    assert layout[1].cpus == "30-55"


def test_only_numa_node_is_that_of_every_gpu_when_the_kernel_says_none() -> None:
    (one,) = plan(node([-1], {0: "0-27"}), 1, 1, (8001,))
    assert (one.numa_nodes, one.cpus) == ((0,), "2-27")


def test_a_lost_gpu_leaves_three_pairs() -> None:
    seven = node([0, 0, 0, 1, 1, 1, 1], {0: "0-31", 1: "32-63"})
    homes = [(r.gpus, r.numa_nodes) for r in plan(seven, 3, 2, (1, 2, 3))]
    assert homes == [((0, 1), (0,)), ((3, 4), (1,)), ((5, 6), (1,))]


def test_cpus_asked_for_are_taken_as_they_are() -> None:
    layout = place(TWO, 2, Shape(tp=4), (1, 2), cpus=("4-7", "60-63"))
    assert [replica.cpus for replica in layout] == ["4-7", "60-63"]


def test_cpus_of_the_latency_client_are_nobody_elses() -> None:
    layout = place(TWO, 2, Shape(tp=4), (1, 2), kept={"client_cpus": "0-3"})
    assert [replica.cpus for replica in layout] == ["6-55,112-167", "58-111,168-223"]


def test_no_replica_has_a_cpu_of_client_or_gateway() -> None:
    kept = {"client_cpus": "2-3", "gateway.cpus": "60-61"}
    state = numa_maps.state("two")
    for replicas, tp in ((8, 1), (4, 2), (2, 4), (1, 8)):
        layout = place(state, replicas, Shape(tp=tp), range(replicas), kept=kept)
        taken = {cpu for replica in layout for cpu in cpulist.parse(replica.cpus)}
        # Nor has it the other threads of those cores.
        assert not taken & {2, 3, 114, 115, 60, 61, 172, 173}
        assert {2, 3, 60, 61} < set(cpulist.parse(reserved(state, layout)))


@in_subtests(
    ("replicas", "tp", "cpus", "kept"),
    [
        (2, 4, ("4-7", "300-303"), {}),
        (2, 4, ("4-7", "8-11"), {}),
        (2, 4, ("60-63", "4-7"), {}),
        (2, 4, ("4-7", ","), {}),
        (2, 4, (), {"client_cpus": "0-55,112-167"}),
        (2, 4, (), {"client_cpus": "0-55", "gateway.cpus": "112-167"}),
        (1, 8, (), {"gateway.cpus": "56-111,168-223"}),
        (2, 4, (), {"client_cpus": "900"}),
    ],
)
def test_cpus_that_cannot_be_had_are_refused(
    replicas: int, tp: int, cpus: tuple[str, ...], kept: dict[str, str]
) -> None:
    with raises_message(LayoutError):
        place(TWO, replicas, Shape(tp=tp), range(replicas), cpus=cpus, kept=kept)


def test_replica_may_be_given_cpus_of_another_node_of_its_socket() -> None:
    four = node([0, 0, 1, 1], {n: f"{n * 8}-{n * 8 + 7}" for n in range(4)})
    (one, _) = place(four, 2, Shape(tp=2), (1, 2), cpus=("8-11", "0-3"))
    assert (one.numa_nodes, one.cpus) == ((0,), "8-11")


# Each changes readings so that they cannot all be true.
CONTRADICTIONS: dict[str, Callable[[Any], object]] = {
    "index twice": lambda state: state["gpus"][1].update(index=0),
    "UUID twice": lambda state: state["gpus"][1].update(uuid="GPU-0"),
    "address twice": lambda state: state["gpus"][1].update(pci_address="0000:00:00.0"),
    "device twice": lambda state: state["pci"]["gpus"][1].update(address="0000:00:00.0"),
    "true as index": lambda state: state["gpus"][0].update(index=True),
    "true as node": lambda state: state["pci"]["gpus"][0].update(numa_node=True),
    "true as id": lambda state: state["numa"][1].update(id=True),
    "node twice": lambda state: state["numa"][1].update(id=0),
    "unknown node": lambda state: state["pci"]["gpus"][0].update(numa_node=7),
    "no node": lambda state: state.update(numa={"unmeasured": "no"}),
    "CPU of two nodes": lambda state: state["numa"][1].update(cpus="55-111,168-223"),
    "unread CPUs": lambda state: state["numa"][1].update(cpus={"unmeasured": "no"}),
    "unread memory": lambda state: state["numa"][1].update(memory_kib={"unmeasured": "no"}),
    "true as memory": lambda state: state["numa"][1].update(memory_kib=True),
    "CPU offline": lambda state: state["cpus"].update(online="0-222"),
    "core on two nodes": lambda state: state["cpus"].update(
        siblings=[f"{n},{n + 56}" for n in (*range(56), *range(112, 168))]
    ),
    "CPU of two cores": lambda state: state["cpus"]["siblings"].append("0,1"),
    "unread cores": lambda state: state["cpus"].update(siblings={"unmeasured": "no"}),
    "a core unread": lambda state: state["cpus"]["siblings"].pop(),
}


@in_subtests("what", CONTRADICTIONS)
def test_readings_that_contradict_each_other_are_refused(what: str) -> None:
    state = copy.deepcopy(TWO)
    CONTRADICTIONS[what](state)
    with raises_message(LayoutError):
        plan(state, 2, 4, (1, 2))


def test_replica_carries_what_its_engine_is_reported() -> None:
    shape = Shape(dp=8, ep=True, max_num_seqs=256, max_num_batched_tokens=16384, kv_tokens=7)
    (only,) = place(TWO, 1, shape, (8001,))
    assert (only.tp, only.dp, only.ep, only.kv_tokens, only.spans) == (1, 8, True, 7, True)
    assert unstructure(only)["max_num_seqs"] == 256


def test_smt_siblings_stay_together() -> None:
    siblings = [f"{cpu},{cpu + 112}" for cpu in range(112)]
    state = node([0] * 4 + [1] * 4, {0: "0-55,112-167", 1: "56-111,168-223"}, siblings)
    for replica in plan(state, 4, 2, (1, 2, 3, 4)):
        cpus = set(cpulist.parse(replica.cpus))
        assert all((cpu + 112) % 224 in cpus for cpu in cpus)


def test_nodes_without_gpus_are_never_chosen() -> None:
    layout = plan(SIX, 4, 2, (1, 2, 3, 4))
    assert [replica.numa_nodes for replica in layout] == [(0,), (2,), (3,), (5,)]


def test_pairs_that_must_span_nodes_name_both() -> None:
    layout = plan(DESCENDING, 4, 2, (1, 2, 3, 4))
    assert [replica.numa_nodes for replica in layout] == [(6, 7), (4, 5), (2, 3), (0, 1)]


def test_group_within_a_node_is_preferred_to_one_across() -> None:
    interleaved = node([0, 1, 0, 1], {0: "0-3", 1: "4-7"})
    assert [r.gpus for r in plan(interleaved, 2, 2, (1, 2))] == [(0, 2), (1, 3)]


def test_tiny_machine_shares_a_cpu_rather_than_refusing() -> None:
    layout = plan(node([0, 0], {0: "0"}), 2, 1, (1, 2))
    assert [replica.cpus for replica in layout] == ["0", "0"]
    assert (shared(layout), reserved(node([0, 0], {0: "0"}), layout)) == ("0", "")


@in_subtests(
    "state",
    [
        node([0] * 7, {0: "0-7"}),
        node([0] * 4 + [-1] * 4, {0: "0-7"}),
        node([0] * 4 + [1] * 4, {0: "0-7", 1: ""}),
        {},
        node([0] * 4 + [1] * 4, {0: "0-x", 1: "4"}),
        {**node([0], {0: "0"}), "gpus": [{"pci_address": "0000:00:00.0"}]},
        {"gpus": {"unmeasured": "driver not loaded"}},
    ],
)
def test_what_cannot_carry_the_replicas_is_refused(state: Any) -> None:
    with raises_message(LayoutError):
        plan(state, 2, 4, (8001, 8002))


@pytest.mark.parametrize(
    ("asked", "gateway", "left", "given"),
    [
        (None, None, "0-1,56-57", "0-1,56-57"),
        ("2-3", None, "0-1", "2-3"),
        (None, None, "", None),
        (None, "0-1", "0-1,56-57", "56-57"),
        (None, "0-1", "0-1", None),
    ],
)
def test_client_gets_the_cpus_that_nobody_has(
    asked: str | None,
    gateway: str | None,
    left: str,
    given: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node, _ = settled(tmp_path)
    own = node.spec.gateway.replace(cpus=gateway)
    node.spec = node.spec.replace(client_cpus=asked, gateway=own)
    monkeypatch.setattr(layout, "reserved", lambda state, replicas: left)
    assert serving.serving_document(node, node.layout()).client_cpus == given
