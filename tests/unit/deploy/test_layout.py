"""Replicas follow the NUMA map that sysfs shows, whatever its shape."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.core import cpulist
from deploy.core.layout import LayoutError, plan


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
        "cpus": {"siblings": siblings or []},
    }


TWO = node([0] * 4 + [1] * 4, {0: "0-55,112-167", 1: "56-111,168-223"})
SIX = node([0, 0, 2, 2, 3, 3, 5, 5], {n: f"{n * 24}-{n * 24 + 23}" for n in range(6)})
DESCENDING = node([7, 6, 5, 4, 3, 2, 1, 0], {n: f"{n * 8}-{n * 8 + 7}" for n in range(8)})


def test_two_replicas_take_a_socket_each() -> None:
    first, second = plan(TWO, 2, 4, (8001, 8002))
    assert (first.gpus, first.numa_nodes, first.cpus) == ((0, 1, 2, 3), (0,), "0-55,112-167")
    assert (second.gpus, second.numa_nodes, second.cpus) == ((4, 5, 6, 7), (1,), "56-111,168-223")


def test_replicas_of_one_node_get_disjoint_cpus() -> None:
    layout = plan(TWO, 8, 1, tuple(range(8001, 8009)))
    taken = [cpu for replica in layout for cpu in cpulist.parse(replica.cpus)]
    assert len(taken) == len(set(taken)) == 224


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


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (node([0] * 7, {0: "0-7"}), "the node shows 7"),
        (node([0] * 4 + [-1] * 4, {0: "0-7"}), "GPU 4 has no NUMA node"),
        (node([0] * 4 + [1] * 4, {0: "0-7", 1: ""}), "NUMA node 1 has GPUs but no CPUs"),
        ({}, "the node shows 0"),
        ({"gpus": {"unmeasured": "driver not loaded"}}, "the node shows 0"),
    ],
)
def test_what_cannot_carry_the_replicas_is_refused(state: Any, told: str) -> None:
    with pytest.raises(LayoutError, match=told):
        plan(state, 2, 4, (8001, 8002))
