"""A replica is pinned by systemd or by its engine, on every NUMA map, and never by both."""

from __future__ import annotations

from typing import Any

from b200kit.engines import KINDS, Settings
from b200kit.node.lib import cpulist
from b200kit.node.placement import numa_policy
from b200kit.node.placement.layout import Replica, survey
from b200kit.node.placement.numa_policy import BIND, ENGINE, LOCAL, SYSTEMD
from b200kit.run.render import render
from tests.lab.hardware import scenario
from tests.subtests import in_subtests
from tests.unit.node.placement.test_layout import SIX, TWO, node, plan


def map_of(name: str) -> dict[str, Any]:
    """The NUMA map of a scenario, as its node is observed."""
    drawn = scenario.load(name)
    gpus = [gpu for gpu in drawn["gpus"] if isinstance(gpu.get("numa_node"), int)]
    return {
        "gpus": [
            {"index": i, "uuid": gpu["uuid"], "pci_address": gpu["pci_address"]}
            for i, gpu in enumerate(gpus)
        ],
        "pci": {"gpus": [{"address": g["pci_address"], "numa_node": g["numa_node"]} for g in gpus]},
        "numa": [
            {"id": n["id"], "cpus": n["cpus"], "memory_kib": n["memory_gib"] << 20}
            for n in drawn["numa_nodes"]
        ],
        "cpus": {"siblings": []},
    }


def distinct_maps() -> list[str]:
    """Scenarios whose NUMA maps differ, one of each."""
    seen: dict[str, str] = {}
    for name in scenario.names():
        state = map_of(name)
        if all(device["numa_node"] >= 0 for device in state["pci"]["gpus"]):
            seen.setdefault(str((state["numa"], state["pci"])), name)
    return sorted(seen.values())


def settings_of(replica: Replica, pins: numa_policy.Pinning) -> Settings:
    """What the engine of a replica is configured with."""
    return Settings(
        model_dir="/srv/models/m",
        served_name="m",
        replica=replica,
        host="127.0.0.1",
        port=replica.port,
        max_model_len=4096,
        max_num_seqs=8,
        max_num_batched_tokens=2048,
        numa_bind=pins.numa_bind,
    )


def layouts(state: dict[str, Any]) -> list[Replica]:
    """Every replica of every equal split of the node's GPUs."""
    count = len(state["gpus"])
    splits = [(count // size, size) for size in (1, 2, 4, 8) if size <= count]
    return [r for number, size in splits for r in plan(state, number, size, tuple(range(number)))]


def test_scenarios_have_several_numa_maps() -> None:
    assert len(distinct_maps()) >= 4


@in_subtests("policy", [BIND, LOCAL])
@in_subtests("name", distinct_maps())
def test_unit_and_engine_never_pin_both(name: str, policy: str) -> None:
    state = map_of(name)
    for replica in layouts(state):
        pins = numa_policy.of(replica, policy, state)
        unit = render("systemd/pinning.conf.j2", replica=replica, pinning=pins).decode()
        config = KINDS["vllm"].config(settings_of(replica, pins))
        by_systemd = "\nCPUAffinity=" in unit or "\nNUMAPolicy=" in unit
        by_engine = "numa-bind" in config
        assert by_systemd != by_engine
        assert by_engine == (replica.spans and policy == BIND)
        assert ("numa-bind-nodes" in config) == by_engine


def test_maps_have_replicas_of_both_kinds() -> None:
    pins = [numa_policy.of(r, BIND, state) for state in map(map_of, distinct_maps())
            for r in layouts(state)]  # fmt: skip
    assert {pin.by for pin in pins} == {SYSTEMD, ENGINE}


@in_subtests("name", distinct_maps())
def test_engine_gets_the_node_of_each_gpu_in_order(name: str) -> None:
    state = map_of(name)
    memory_of = survey(state).memory_of
    nodes = [memory_of(device["numa_node"]) for device in state["pci"]["gpus"]]
    for replica in layouts(state):
        pins = numa_policy.of(replica, BIND, state)
        if pins.by == ENGINE:
            assert pins.gpu_nodes == tuple(nodes[gpu] for gpu in replica.gpus)
            assert {*pins.gpu_nodes} == {*pins.nodes}


def test_replica_of_one_node_is_bound_to_its_cpus_and_memory() -> None:
    replica = plan(TWO, 2, 4, (1, 2))[1]
    pins = numa_policy.of(replica, BIND, TWO)
    assert (pins.by, pins.cpus, pins.nodes) == (SYSTEMD, replica.cpus, (1,))
    unit = render("systemd/pinning.conf.j2", replica=replica, pinning=pins).decode()
    assert f"\nCPUAffinity={replica.cpus}\nNUMAPolicy=bind\nNUMAMask=1\n" in unit


def test_replica_over_nodes_is_expected_on_all_their_cpus() -> None:
    [replica] = plan(SIX, 1, 8, (1,))
    expected = numa_policy.of(replica, BIND, SIX).expected()
    assert (expected["by"], expected["nodes"]) == (ENGINE, "0,2-3,5")
    assert cpulist.parse(expected["cpus"]) == [
        *range(24), *range(48, 96), *range(120, 144),
    ]  # fmt: skip


def test_memory_is_never_bound_to_a_node_that_has_none() -> None:
    state = node([0] * 2 + [1] * 2 + [2] * 4, {0: "0-31", 1: "32-63", 2: "64-95"})
    state["numa"][1]["memory_kib"] = 0
    small = [numa_policy.of(r, BIND, state) for r in plan(state, 4, 2, (1, 2, 3, 4))]
    assert [pins.nodes for pins in small] == [(0,), (0,), (2,), (2,)]
    [whole] = plan(state, 1, 8, (1,))
    pins = numa_policy.of(whole, BIND, state)
    assert (pins.by, pins.nodes, pins.gpu_nodes) == (ENGINE, (0, 2), (0,) * 4 + (2,) * 4)
