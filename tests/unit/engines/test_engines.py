"""Each engine says what the kit means in its own words, and only in words that it has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from b200kit.catalog import engines
from b200kit.engines import KINDS, METRICS, EngineGroup, EngineKind, Settings
from b200kit.engines.flags import Version
from b200kit.inventory.keys.gateway import Gateway
from b200kit.node.placement.layout import Replica
from b200kit.serving.gateway import haproxy_config
from tests.subtests import in_subtests

ONE = Replica(1, (2, 3), ("GPU-2", "GPU-3"), (0,), "0-13", 8002, tp=2)
HEAD = EngineGroup(2, 0, "10.1.0.1", 29501, "10.1.0.1", "ens1", ("10.1.0.2",))
FOLLOWER = replace(HEAD, node_rank=1, address="10.1.0.2", peers=("10.1.0.1",))


def settings(**changes: Any) -> Settings:
    """The settings of a replica, with *changes*."""
    plain = Settings(
        model_dir="/srv/models/m/r",
        served_name="m",
        replica=ONE,
        host="127.0.0.1",
        port=8002,
        max_model_len=4096,
        max_num_seqs=8,
        max_num_batched_tokens=2048,
    )
    return replace(plain, **changes)


def options(kind: EngineKind, **changes: Any) -> dict[str, Any]:
    """Every flag an engine is given, in its configuration or on its command line."""
    return given(kind, settings(**changes))


def given(kind: EngineKind, one: Settings) -> dict[str, Any]:
    """The same of settings that are whole."""
    words = dict(pairwise(kind.argv(one)))
    flags = {name[2:]: value for name, value in words.items() if name.startswith("--")}
    return {**flags, **flat(kind.config(one))}


def flat(config: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    """A nested mapping with the parts of its names by dots, and lists as text in JSON."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{within}{name}.")
        else:
            found[f"{within}{name}"] = value
    return found


def versions(name: str) -> list[Version]:
    """The versions of an engine that there are lists of."""
    return list(engines.load()[name].versions.values())


CASES = [(kind, version) for kind in KINDS.values() for version in versions(kind.name)]


@in_subtests(("kind", "version"), CASES, ids=lambda one: getattr(one, "version", ""))
@in_subtests("group", [None, HEAD, FOLLOWER, replace(HEAD, join="tensor")])
@in_subtests("numa_bind", [(), (0, 1)])
def test_engine_is_given_only_flags_and_values_that_it_takes(
    kind: EngineKind, version: Version, group: EngineGroup | None, numa_bind: tuple[int, ...]
) -> None:
    if group and group.join not in kind.groups:
        return
    cpus = ("0-27", "28-55,112")[: len(numa_bind)]
    for name, value in options(kind, group=group, numa_bind=numa_bind, numa_bind_cpus=cpus).items():
        values = value if isinstance(value, list) else [value]
        assert [version.wrong_flag(name, one) for one in values] == [""] * len(values), name


@pytest.mark.parametrize(("kind", "version"), CASES, ids=lambda one: getattr(one, "version", ""))
def test_what_the_kit_owns_or_refuses_is_something_that_the_engine_has(
    kind: EngineKind, version: Version
) -> None:
    known = {*version.flags, *version.fields, *version.environment}
    named = {*kind.owned, *(name.partition("=")[0] for name in kind.refused)}
    assert named <= known


@pytest.mark.parametrize(("kind", "version"), CASES, ids=lambda one: getattr(one, "version", ""))
def test_engine_is_given_only_variables_that_it_reads(kind: EngineKind, version: Version) -> None:
    for name in kind.environment(settings(group=HEAD)):
        assert version.wrong_variable(name, kind.variables) == ""


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_engine_keeps_an_idle_connection_longer_than_the_gateway(name: str) -> None:
    """TensorRT-LLM has no such setting."""
    files = haproxy_config.files(Gateway(), [], {})
    gateway = re.search(r"timeout http-keep-alive (\d+)s", files[0].content.decode())
    variable = {"vllm": "VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "sglang": "SGLANG_TIMEOUT_KEEP_ALIVE"}
    assert gateway
    assert int(KINDS[name].environment(settings())[variable[name]]) > int(gateway[1])


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_no_engine_listens_beyond_loopback_goes_online_or_gets_a_secret(kind: EngineKind) -> None:
    environment = kind.environment(settings())
    assert options(kind)["host"] == "127.0.0.1"
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert not any("key" in name.lower() for name in (*environment, *options(kind)))
    assert environment["HOME"].startswith("/var/cache/vllm/1")


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_engine_names_its_series_of_what_the_kit_reads(kind: EngineKind) -> None:
    assert set(kind.metrics) <= set(METRICS)
    assert {"running", "waiting", "generation_tokens", "ttft"} <= set(kind.metrics)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_inventory_s_flags_win(kind: EngineKind) -> None:
    name = {"vllm": "dtype", "sglang": "dtype", "trtllm": "reasoning_parser"}[kind.name]
    assert options(kind, flags={name: "x"})[name] == "x"


def test_vllm_makes_a_stale_variable_fatal() -> None:
    assert KINDS["vllm"].config(settings())["fail-on-environ-validation"] is True


def test_what_is_off_is_told_vllm_by_name_because_it_drops_false() -> None:
    config = KINDS["vllm"].config(settings(flags={"enable-prefix-caching": False, "seed": 0}))
    assert config["no-enable-prefix-caching"] is True
    assert config["seed"] == 0
    assert "enable-prefix-caching" not in config
    assert False not in [value for value in config.values() if isinstance(value, bool)]


def test_trtllm_is_told_sizes_by_its_command_line_because_its_file_would_win() -> None:
    kind = KINDS["trtllm"]
    assert kind.argv(settings())[:2] == ("trtllm-serve", "/srv/models/m/r")
    assert kind.config(settings()) == {
        "return_perf_metrics": True,
        "enable_iter_perf_stats": True,
        "enable_chunked_prefill": True,
        "cuda_graph_config": {"enable_padding": True, "max_batch_size": 8},
    }


def test_one_vllm_over_two_nodes_has_a_stage_on_each() -> None:
    head, follower = (KINDS["vllm"].config(settings(group=group)) for group in (HEAD, FOLLOWER))
    same = {"tensor-parallel-size": 2, "pipeline-parallel-size": 2, "nnodes": 2}
    assert {**head, **same} == head
    assert {**follower, **same, "node-rank": 1, "headless": True} == follower
    assert "headless" not in head


def test_tensor_join_counts_over_all_nodes() -> None:
    tensor = replace(HEAD, join="tensor")
    assert KINDS["vllm"].config(settings(group=tensor))["tensor-parallel-size"] == 4
    assert KINDS["sglang"].config(settings(group=tensor))["tp-size"] == 4


def test_data_join_gives_each_node_its_own_ranks_and_requests() -> None:
    moe = replace(ONE, tp=1, dp=8, gpus=tuple(range(8)))
    one = settings(replica=moe, group=replace(FOLLOWER, join="data"))
    config = KINDS["vllm"].config(one)
    assert (config["data-parallel-size"], config["data-parallel-size-local"]) == (16, 8)
    assert (config["data-parallel-start-rank"], config["data-parallel-hybrid-lb"]) == (8, True)
    assert "headless" not in config
    assert "node-rank" not in config


@in_subtests(("cpus", "ranks"), [("0-13", 2), ("0,7", 2), ("0", 1)])
def test_engine_on_cpus_has_the_ranks_of_the_plan_where_each_gets_a_cpu(
    cpus: str, ranks: int
) -> None:
    one = settings(kind="cpu", replica=replace(ONE, cpus=cpus))
    joined = replace(one, group=replace(HEAD, join="tensor"))
    sizes = [KINDS["vllm"].config(given)["tensor-parallel-size"] for given in (one, joined)]
    assert sizes == [ranks, 2 * ranks]


def test_gpus_have_a_rank_each_however_few_cpus_there_are() -> None:
    config = KINDS["vllm"].config(settings(replica=replace(ONE, cpus="0")))
    assert config["tensor-parallel-size"] == 2


def test_nodes_talk_on_the_network_that_is_named() -> None:
    environment = KINDS["vllm"].environment(settings(group=FOLLOWER))
    assert environment["VLLM_HOST_IP"] == "10.1.0.2"
    assert KINDS["vllm"].environment(settings())["VLLM_HOST_IP"] == "127.0.0.1"
    assert environment["NCCL_SOCKET_IFNAME"] == environment["GLOO_SOCKET_IFNAME"] == "ens1"


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_workers_of_one_node_meet_on_loopback_which_is_all_that_the_unit_allows(
    kind: EngineKind,
) -> None:
    environment = kind.environment(settings())
    assert environment["NCCL_SOCKET_IFNAME"] == environment["GLOO_SOCKET_IFNAME"] == "lo"
