"""Scenario files: merging, checking, rendering for a machine of few CPUs."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lab.hardware import scenario
from tests.lab.hardware.cpu_scale import parse_cpulist, scale
from tests.lab.hardware.scenario_shape import SCENARIO, ScenarioError
from tests.messages import assert_message, raises_message
from tests.subtests import in_subtests

TOPOLOGIES = {
    "healthy": [0, 0, 0, 0, 1, 1, 1, 1],
    "gpu2-no-nvlink": [0, 0, 0, 0, 1, 1, 1, 1],
    "fabric-in-progress": [0, 0, 0, 0, 1, 1, 1, 1],
    "seven-gpus": [0, 0, 0, 1, 1, 1, 1],
    "one-gpu": [0],
    "four-numa-nodes": [0, 0, 1, 1, 2, 2, 3, 3],
    "six-numa-nodes-two-without-gpu": [0, 0, 2, 2, 3, 3, 5, 5],
    "eight-numa-nodes": [3, 2, 1, 0, 7, 6, 5, 4],
    "interleaved-cpus": [0, 0, 0, 0, 1, 1, 1, 1],
    "one-numa-node": [0] * 8,
    "memory-less-node": [0, 0, 1, 1, 2, 2, 3, 3],
    "numa-node-unknown": [-1] * 8,
}


def write(folder: Path, text: str, name: str = "mine") -> str:
    """A scenario file; returns its path."""
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def complaint(folder: Path, text: str) -> str:
    """The one line with which a scenario is refused."""
    with pytest.raises(ScenarioError) as refused:
        scenario.render(write(folder, text), 2)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@in_subtests("name", TOPOLOGIES)
def test_gpus_are_on_the_numa_nodes_their_source_shows(name: str) -> None:
    rendered = scenario.render(name, 2)
    assert [gpu["numa_node"] for gpu in rendered["gpus"]] == TOPOLOGIES[name]


def with_text_keys(value: Any) -> Any:
    """The same with link and GPU numbers as texts where they are keys, as JSON has them."""
    if isinstance(value, dict):
        return {str(key): with_text_keys(item) for key, item in value.items()}
    return [with_text_keys(item) for item in value] if isinstance(value, list) else value


@in_subtests("name", scenario.names, one_in=5)
def test_every_scenario_of_the_repository_renders_to_json(name: str) -> None:
    rendered = scenario.render(name, 2)
    assert json.loads(json.dumps(rendered)) == with_text_keys(rendered)
    assert rendered["name"] == name


def test_every_scenario_of_the_repository_has_a_topology_test() -> None:
    healthy_map = TOPOLOGIES["healthy"]
    others = {
        name: [gpu["numa_node"] for gpu in scenario.render(name, 2)["gpus"]]
        for name in scenario.names()
        if name not in TOPOLOGIES
    }
    assert {name: seen for name, seen in others.items() if seen != healthy_map} == {}


@in_subtests(
    ("name", "cpus", "lists"),
    [
        ("healthy", 2, ["0", "1"]),
        ("healthy", 16, ["0-7", "8-15"]),
        ("healthy", 1, ["0", "0"]),
        ("four-numa-nodes", 2, ["0", "0", "1", "1"]),
        ("six-numa-nodes-two-without-gpu", 8, ["0-1", "2-3", "4", "5", "6", "7"]),
    ],
)
def test_cpu_lists_are_laid_on_the_cpus_there_are(name: str, cpus: int, lists: list[str]) -> None:
    assert [node["cpus"] for node in scenario.render(name, cpus)["numa_nodes"]] == lists


@given(st.lists(st.integers(0, 300), max_size=12), st.integers(1, 256))
def test_scaled_lists_name_only_real_cpus_and_no_node_goes_without(
    sizes: list[int], online: int
) -> None:
    written = [f"0-{size - 1}" if size else "" for size in sizes]
    real = [parse_cpulist(text) for text in scale(written, online)]
    used = [cpu for cpus in real for cpu in cpus]
    assert [bool(cpus) for cpus in real] == [bool(size) for size in sizes]
    assert set(used) <= set(range(online))
    if sum(map(bool, sizes)) in range(1, online + 1):
        assert sorted(used) == list(range(online))


def test_a_scenario_can_extend_one_beside_it(tmp_path: Path) -> None:
    write(tmp_path, "extends: healthy\ngpus: {1: {lost: true}}\n", "first")
    path = write(tmp_path, "extends: first\ngpus: {6: null}\n", "second")
    gpus = scenario.render(path, 2)["gpus"]
    assert [gpu["lost"] for gpu in gpus] == [False, True, *[False] * 5]


def test_a_later_fault_is_told_as_what_changes(tmp_path: Path) -> None:
    text = "extends: healthy\nlater:\n  - {boot: 2, gpus: {3: {links: {down: [7]}}}}\n"
    assert scenario.render(write(tmp_path, text), 2)["later"] == [
        {
            "boot": 2,
            "after_s": 0,
            "nvml": {"gpu.3.field.147": "17", "gpu.3.links.7.state": "0"},
        }
    ]


@pytest.mark.parametrize(
    "text",
    [
        "extends: healthy\ngpus: {0: {links: {speed_mbps: {18: 1}}}}\n",
        "extends: healthy\ngpus: {0: {links: {speed_mbps: {7: x}}}}\n",
        "extends: healthy\ngpus: {0: {links: {fec_history: [1]}}}\n",
        "extends: healthy\ngpus: {0: {links: {fec_history: {7: 1}}}}\n",
        "extends: healthy\ngpus: {0: {p2p: {GPU1: 5}}}\n",
        "extends: healthy\ngpus: {0: {refuse: {nvmlInit: lost}}}\n",
        "extends: helthy\n",
        "extends: healthy\nfabrik: {}\n",
        "extends: healthy\ngpus: {2: {linkz: 1}}\n",
        "extends: healthy\ngpus: {9: {mig: true}}\n",
        "extends: healthy\ngpus: {0: {mig: 1}}\n",
        "extends: healthy\ngpus: {0: {serial: 165}}\n",
        "extends: healthy\ngpus: {0: {links: {down: some}}}\n",
        "extends: healthy\ngpus: {0: {numa_node: 5}}\n",
        "extends: healthy\ngpus: {0: {pci_address: '1b:00.0'}}\n",
        "extends: healthy\ngpus: {0: {pci_address: '0000:43:00.0'}}\n",
        "extends: healthy\nxids: [{gpu: 8, code: 79, text: x}]\n",
        "extends: healthy\nlater: [{gpus: {0: null}}]\n",
        "extends: healthy\nnuma_nodes: {0: {cpus: zero}}\n",
        "extends: healthy\ngpus: {0: 5}\n",
        "extends: healthy\ngpus: [{serial: '1'}]\n",
        "extends: healthy\ngpus: {0: {pcie: {generation: 9}}}\n",
        "extends: healthy\ngpus: {0: {links: {down: [18]}}}\n",
        "extends: healthy\nnics: [{name: mlx5_0}]\n",
        "extends: healthy\nnuma_distance: [[10]]\n",
        "extends: mine\n",
        "description: alone\n",
        "- a list\n",
        "{",
    ],
)
def test_a_bad_scenario_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    assert_message(complaint(tmp_path, text))


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.sampled_from(["", "0-3", "all", "healthy"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "cpus", "gpu", "links", "down", "pcie", "name", 0, 2]), inner
        )
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(sorted(SCENARIO)), JUNK, max_size=3))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_scenario_says_it_is_rendered_or_refused(
    tmp_path: Path, change: dict[str, object]
) -> None:
    path = write(tmp_path, json.dumps({"extends": "healthy", **change}))
    with suppress(ScenarioError):
        assert scenario.render(path, 2)["schema"] == scenario.SCHEMA


def test_a_file_that_is_not_there_is_named() -> None:
    with raises_message(ScenarioError):
        scenario.render("nowhere/x.yaml", 2)
