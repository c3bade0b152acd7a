"""Hardware data: strict, with provenance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import hardware
from deploy.core.verdict import Action


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


ENTRY = {"value": 1, "unit": "", "source": "s", "date": "2026-01-01", "kind": "quoted"}
GOOD: dict[str, Any] = {
    "schema": hardware.SCHEMA,
    "name": "x",
    "title": "t",
    "expect": {"a": ENTRY},
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema": "other"}, "schema must be"),
        ({"name": "y"}, "name must be x"),
        ({"more": 1}, "unknown key 'more'"),
        ({"expect": {}}, "must be a mapping"),
        ({"expect": {"a": {"value": 1}}}, "a must have exactly"),
        ({"expect": {"a": {**ENTRY, "kind": "guessed"}}}, "kind must be one of"),
        ({"expect": {"a": {**ENTRY, "source": ""}}}, "source is empty"),
    ],
)
def test_malformed_file_is_refused(
    change: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.yaml").write_text(yaml.safe_dump({**GOOD, **change}))
    monkeypatch.setattr(hardware, "DIRECTORY", tmp_path)
    hardware._read.cache_clear()
    with pytest.raises(hardware.HardwareError, match=says):
        hardware.load("x")


def test_file_that_is_no_yaml_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.yaml").write_text("a: [")
    monkeypatch.setattr(hardware, "DIRECTORY", tmp_path)
    hardware._read.cache_clear()
    with pytest.raises(hardware.HardwareError, match=r"x\.yaml"):
        hardware.load("x")
