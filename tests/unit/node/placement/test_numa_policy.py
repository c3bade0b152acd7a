"""A replica is pinned by systemd or by its engine, on every NUMA map, and never by both."""

from __future__ import annotations

from functools import cache
from typing import Any

from b200kit.engines import KINDS, Settings
from b200kit.node.lib import cpulist
from b200kit.node.placement import numa_policy
from b200kit.node.placement.layout import Replica
from b200kit.node.placement.machine import survey
from b200kit.node.placement.numa_policy import BIND, ENGINE, LOCAL, SYSTEMD
from b200kit.run.render import render
from tests.lab.hardware import scenario
from tests.subtests import in_subtests
from tests.unit.node.placement.test_layout import SIX, TWO, lone, node, plan


@cache
def _drawn(name: str) -> dict[str, Any]:
    """A scenario, read once."""
    return scenario.load(name)


def map_of(name: str) -> dict[str, Any]:
    """The NUMA map of a scenario, as its node is observed."""
    drawn = _drawn(name)
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
        "cpus": {"siblings": lone({n["id"]: n["cpus"] for n in drawn["numa_nodes"]})},
    }


@cache
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
        numa_bind=pins.gpu_nodes,
        numa_bind_cpus=pins.gpu_cpus,
    )


def layouts(state: dict[str, Any]) -> list[Replica]:
    """Every replica of every equal split of the node's GPUs."""
    count = len(state["gpus"])
    splits = [(count // size, size) for size in (1, 2, 4, 8) if size <= count]
    return [r for number, size in splits for r in plan(state, number, size, tuple(range(number)))]


def test_scenarios_have_several_numa_maps() -> None:
    assert len(distinct_maps()) >= 4


def directives(replica: Replica, pins: numa_policy.Pinning) -> dict[str, str]:
    """What the drop-in of a replica tells systemd."""
    unit = render("systemd/pinning.conf.j2", replica=replica, pinning=pins).decode()
    return dict(line.split("=", 1) for line in unit.splitlines() if "=" in line and line[0] != "#")


@in_subtests("engine_binds", [True, False])
@in_subtests("policy", [BIND, LOCAL])
@in_subtests("name", distinct_maps)
def test_unit_holds_its_processes_where_the_layout_says(
    name: str, policy: str, engine_binds: bool
) -> None:
    state = map_of(name)
    for replica in layouts(state):
        pins = numa_policy.of(replica, policy, state, engine_binds)
        unit = directives(replica, pins)
        by_engine = pins.by == ENGINE
        assert unit["AllowedCPUs" if by_engine else "CPUAffinity"] == replica.cpus
        assert ("CPUAffinity" in unit) != ("AllowedCPUs" in unit)
        nodes = ",".join(map(str, replica.numa_nodes))
        assert unit.get("NUMAMask") == (nodes if policy == BIND else None)
        assert unit["NUMAPolicy"] == policy
        assert pins.expected()["cpus"] == replica.cpus
        assert ("numa-bind" in KINDS["vllm"].config(settings_of(replica, pins))) == by_engine
        assert not by_engine or (replica.spans and policy == BIND and engine_binds)


@in_subtests("name", distinct_maps)
def test_workers_of_a_replica_share_its_printed_cpus_by_node(name: str) -> None:
    state = map_of(name)
    of_node = {node["id"]: set(cpulist.parse(node["cpus"])) for node in state["numa"]}
    for replica in layouts(state):
        pins = numa_policy.of(replica, BIND, state, True)
        if pins.by == ENGINE:
            config = KINDS["vllm"].config(settings_of(replica, pins))
            lists = [set(cpulist.parse(text)) for text in as_list(config["numa-bind-cpus"])]
            nodes = as_list(config["numa-bind-nodes"])
            assert len(lists) == len(nodes) == len(replica.gpus)
            assert set.union(*lists) == set(cpulist.parse(replica.cpus))
            # The EngineCore is bound to all CPUs of the nodes; AllowedCPUs= leaves it these.
            assert all(cpus <= of_node[node] for cpus, node in zip(lists, nodes, strict=True))


def as_list(value: Any) -> list[Any]:
    """A flag that takes a list."""
    assert isinstance(value, list)
    return value


def test_maps_have_replicas_of_both_kinds() -> None:
    pins = [numa_policy.of(r, BIND, state, True) for state in map(map_of, distinct_maps())
            for r in layouts(state)]  # fmt: skip
    assert {pin.by for pin in pins} == {SYSTEMD, ENGINE}


@in_subtests("name", distinct_maps)
def test_engine_gets_the_node_of_each_gpu_in_order(name: str) -> None:
    state = map_of(name)
    memory_of = survey(state).memory_of
    nodes = [memory_of(device["numa_node"]) for device in state["pci"]["gpus"]]
    for replica in layouts(state):
        pins = numa_policy.of(replica, BIND, state, True)
        if pins.by == ENGINE:
            assert pins.gpu_nodes == tuple(nodes[gpu] for gpu in replica.gpus)
            assert {*pins.gpu_nodes} == {*pins.nodes}


def test_replica_of_one_node_is_bound_to_its_cpus_and_memory() -> None:
    replica = plan(TWO, 2, 4, (1, 2))[1]
    pins = numa_policy.of(replica, BIND, TWO, True)
    assert (pins.by, pins.cpus, pins.nodes) == (SYSTEMD, replica.cpus, (1,))
    unit = render("systemd/pinning.conf.j2", replica=replica, pinning=pins).decode()
    assert f"\nCPUAffinity={replica.cpus}\nNUMAPolicy=bind\nNUMAMask=1\n" in unit


def test_replica_over_nodes_is_expected_on_the_cpus_it_is_printed_with() -> None:
    [replica] = plan(SIX, 1, 8, (1,))
    expected = numa_policy.of(replica, BIND, SIX, True).expected()
    assert (expected["by"], expected["nodes"]) == (ENGINE, "0,2-3,5")
    assert expected["cpus"] == replica.cpus == "2-23,50-71,74-95,122-143"


def test_engine_that_cannot_bind_leaves_it_to_systemd() -> None:
    [replica] = plan(SIX, 1, 8, (1,))
    pins = numa_policy.of(replica, BIND, SIX, False)
    assert (pins.by, pins.cpus, pins.nodes) == (SYSTEMD, replica.cpus, (0, 2, 3, 5))
    assert [kind.binds_numa for kind in KINDS.values()] == [True, True, False]


def test_memory_is_never_bound_to_a_node_that_has_none() -> None:
    state = node([0] * 2 + [1] * 2 + [2] * 4, {0: "0-31", 1: "32-63", 2: "64-95"})
    state["numa"][1]["memory_kib"] = 0
    small = [numa_policy.of(r, BIND, state, True) for r in plan(state, 4, 2, (1, 2, 3, 4))]
    assert [pins.nodes for pins in small] == [(0,), (0,), (2,), (2,)]
    [whole] = plan(state, 1, 8, (1,))
    pins = numa_policy.of(whole, BIND, state, True)
    # numactl refuses node 1, so no worker can be bound to it: systemd binds them all.
    assert (pins.by, pins.cpus, pins.nodes) == (SYSTEMD, whole.cpus, (0, 2))
