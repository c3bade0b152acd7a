"""Hardware data: strict, with provenance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from b200kit.catalog import hardware
from b200kit.node.checks.judge import judge, registered
from b200kit.node.lib.documents import structure, unstructure
from b200kit.node.state.verdict import Action, Finding, Verdict
from tests.messages import raises_message
from tests.subtests import in_subtests
from tests.unit import states


def test_every_hardware_file_loads() -> None:
    assert "hgx-b200" in hardware.names()
    for name in hardware.names():
        assert hardware.load(name)["name"] == name


def test_unknown_hardware_names_the_known() -> None:
    with pytest.raises(hardware.HardwareError, match=r"hgx-b300.*known: .*hgx-b200"):
        hardware.load("hgx-b300")


@pytest.mark.parametrize("table", ["nvml.faults", "recovery.actions", "xid.actions"])
def test_every_action_in_the_data_is_on_the_ladder(table: str) -> None:
    words = {action.word for action in Action}
    entries = hardware.load("hgx-b200")["expect"][table]["value"]
    assert {entry["action"] for entry in entries.values()} <= words


HEALTHY = {
    "hgx-b200": "healthy-hgx-b200",
    "hgx-b200-vm": "healthy-hgx-b200-vm",
    "hgx-h100": "healthy-hgx-h100",
    "single": "healthy-single-b200",
}
"""A recorded healthy node of each hardware; none of an H200 is public."""


def expectation(name: str) -> dict[str, Any]:
    """What a node of a hardware is judged by, with any driver; the GPU count is the file's."""
    document = states.expectation(name)
    count = hardware.load(name)["expect"]["gpu_count"]["value"]
    return {**document, "driver": None, "gpu_count": count}


def h200() -> dict[str, Any]:
    """The H100 node with what an H200 has instead, as hgx-h200.yaml says: made up."""
    state = states.recorded("healthy-hgx-h100")
    for gpu, device in zip(state["gpus"], state["pci"]["gpus"], strict=True):
        gpu.update(memory_total_mib=143771, bar1_total_mib=262144, device_id="2335")
        device["device"] = "2335"
    return state


@pytest.mark.parametrize("name", hardware.names())
def test_healthy_node_is_fit_by_its_own_hardware(name: str) -> None:
    state = states.recorded(HEALTHY[name]) if name in HEALTHY else h200()
    verdict = judge(expectation(name), state)
    assert verdict.fit == "fit", [f"{f.check}: {f.summary}" for f in verdict.blocking]
    assert [f.summary for f in verdict.findings if f.action] == []
    left_out = hardware.load(name).get("not_applicable", {})
    assert verdict.not_applicable == left_out
    assert {finding.check for finding in verdict.findings} == set(registered()) - set(left_out)


@in_subtests("name", HEALTHY)
@in_subtests("other", [name for name in hardware.names() if name != "single"])
def test_healthy_node_is_unfit_by_another_hardware(name: str, other: str) -> None:
    if other != name:
        verdict = judge(expectation(other), states.recorded(HEALTHY[name]))
        # What kind of machine they were is in few recorded states.
        assert verdict.fit == ("unmeasured" if other == "hgx-b200-vm" == f"{name}-vm" else "unfit")
        assert "identity" in {finding.check.split(".")[0] for finding in verdict.blocking}


@pytest.mark.parametrize("name", hardware.names())
def test_only_known_checks_are_not_applicable(name: str) -> None:
    assert set(hardware.load(name).get("not_applicable", {})) - set(registered()) == set()


def test_every_check_applies_to_the_hgx_b200() -> None:
    assert "not_applicable" not in hardware.load("hgx-b200")


@pytest.mark.parametrize("name", [name for name in hardware.names() if name != "hgx-b200"])
def test_every_check_that_is_left_out_would_block_or_say_nothing(name: str) -> None:
    """Nothing is left out that this hardware could pass by a reading of its own."""
    document = expectation(name)
    left_out = document["hardware"].pop("not_applicable")
    state = states.recorded(HEALTHY[name]) if name in HEALTHY else h200()
    verdict = judge(document, state)
    silent = {finding.check for finding in verdict.findings if not finding.blocks}
    assert verdict.not_applicable == {}
    assert set(left_out) & silent <= PASS_WITHOUT_READING


PASS_WITHOUT_READING = {
    *("fabric.health", "fabric.status", "fabric.mask"),  # not supported is no fault
    *("nics.switch-management", "nics.management-state"),  # nothing there is no fault
    "passport.recovery",  # nor is no counter
    *("bandwidth.peer", "bandwidth.all-reduce", "nvls.manager"),  # nobody asks for it
    *("nics.management-port", "fabric.nvlsm-installed"),  # nor this document for the bring-up
}


@in_subtests(
    "table",
    [
        {"nvlink.links": ""},
        {"nvlink.links": "  "},
        {"nvlink.links": None},
        {"nvlink.links": "a reason", "nvlink.speed": 1},
        ["nvlink.links"],
        "nvlink.links",
        None,
        {"unmeasured": "nvlink.links"},
    ],
)
def test_a_malformed_table_leaves_nothing_out(table: object) -> None:
    document, state = expectation("hgx-b200"), states.healthy()
    document["hardware"]["not_applicable"] = table
    state["gpus"][3]["links"][7]["state"] = 0
    verdict = judge(document, state)
    assert verdict.fit == "unfit"
    assert verdict.not_applicable == {}


def test_a_check_that_is_not_applicable_is_listed_and_not_judged() -> None:
    document, state = expectation("hgx-b200"), states.healthy()
    document["hardware"]["not_applicable"] = {"nvlink.links": "why", "no.such": "newer than this"}
    state["gpus"][3]["links"][7]["state"] = 0
    verdict = judge(document, state)
    assert verdict.fit == "fit"
    assert verdict.not_applicable == {"nvlink.links": "why"}
    assert unstructure(verdict)["not_applicable"] == {"nvlink.links": "why"}
    assert structure(Verdict, unstructure(verdict)) == verdict


def test_a_verdict_without_the_list_reads_back() -> None:
    data = unstructure(Verdict((Finding("all is well"),)))
    del data["not_applicable"]
    assert structure(Verdict, data).not_applicable == {}


def test_a_verdict_whose_every_check_is_not_applicable_is_unmeasured() -> None:
    document = expectation("hgx-b200")
    document["hardware"]["not_applicable"] = dict.fromkeys(registered(), "why")
    verdict = judge(document, states.healthy())
    assert (verdict.fit, verdict.exit_status, len(verdict.not_applicable)) == (
        "unmeasured",
        2,
        len(registered()),
    )


ENTRY = {"value": 1, "unit": "", "source": "s", "date": "2026-01-01", "kind": "quoted"}
GOOD: dict[str, Any] = {
    "schema": hardware.SCHEMA,
    "name": "x",
    "title": "t",
    "expect": {"a": ENTRY},
}


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "other"},
        {"name": "y"},
        {"more": 1},
        {"expect": {}},
        {"expect": {"a": {"value": 1}}},
        {"expect": {"a": {**ENTRY, "kind": "guessed"}}},
        {"expect": {"a": {**ENTRY, "source": ""}}},
        {"not_applicable": ["a.b"]},
        {"not_applicable": {"a.b": " "}},
        {"not_applicable": {"a.b": None}},
        {"same_as": ["y"]},
        {"same_as": {"y": "a"}},
        {"same_as": {"y": ["b"]}},
        {"same_as": {"x": ["b"]}},
        {"same_as": {"x": ["a"]}},
    ],
)
def test_malformed_file_is_refused(
    change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.yaml").write_text(yaml.safe_dump({**GOOD, **change}))
    monkeypatch.setattr(hardware, "DIRECTORY", tmp_path)
    hardware._read.cache_clear()
    with raises_message(hardware.HardwareError):
        hardware.load("x")


def test_file_that_is_no_yaml_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.yaml").write_text("a: [")
    monkeypatch.setattr(hardware, "DIRECTORY", tmp_path)
    hardware._read.cache_clear()
    with pytest.raises(hardware.HardwareError, match=r"x\.yaml"):
        hardware.load("x")


GPU = {"title": "one", "source": "a sheet", "date": "2026-11-27", "kind": "quoted"}


@in_subtests(
    "entry",
    [
        {"10de:2901": {**GPU, "figures": {"memory.size": 1}}},  # no figure of that name
        {"10de:2901": {"title": "one", "figures": {"gpu_count": 1}}},  # no provenance
        {"10de:2901": {**GPU, "colour": 1}},
        {"10de:2901": {**GPU, "not_applicable": {"ecc.enabled": ""}}},
        {"10de:1234": GPU},  # not one of pci.ids
        {"10de:2901": "B200"},
    ],
)
def test_what_is_otherwise_for_one_gpu_is_read_strictly(
    entry: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = yaml.safe_load((hardware.DIRECTORY / "single.yaml").read_text())
    (tmp_path / "single.yaml").write_text(yaml.safe_dump({**document, "gpus": entry}))
    monkeypatch.setattr(hardware, "DIRECTORY", tmp_path)
    hardware._read.cache_clear()
    with pytest.raises(hardware.HardwareError, match="gpus"):
        hardware.load("single")
    hardware._read.cache_clear()


def test_checks_of_one_gpu_that_are_not_applicable_are_known() -> None:
    for name in hardware.names():
        for gpu in hardware.load(name).get("gpus", {}).values():
            assert set(gpu["not_applicable"]) <= set(registered())
