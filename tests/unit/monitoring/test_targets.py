"""`b200 targets` and `b200 monitoring`: what is written for whom, from an inventory alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from b200kit.cli import main
from b200kit.monitoring import dashboards, files
from b200kit.monitoring.targets import MonitoredNode, targets, unread
from b200kit.node.status import metrics
from b200kit.operations import monitored
from b200kit.operations.inventory_process import InventoryRefused

NODE = MonitoredNode("n01", "10.0.0.5", "node", ("prod", "rack1"), 9464, replicas=2)
INVENTORY = """
from b200kit.operations import preflight
from tests.unit.specs import data
preflight.attach()
own = data(model_store_tls="off", {keys})
nodes = [("n01", {{**own, "ssh_hostname": "n01.example.internal"}})]
"""


def test_a_node_has_a_target_for_each_source_of_metrics() -> None:
    found = [(t["targets"], t["labels"]) for t in targets([NODE])]
    common = {"node": "n01", "role": "node", "groups": "prod,rack1", "__scheme__": "http"}
    at, engine = ["10.0.0.5:9464"], {"job": "b200-engine", **common}
    assert found == [
        (at, {"job": "b200", **common, "__metrics_path__": "/metrics"}),
        (at, {"job": "b200-haproxy", **common, "__metrics_path__": "/metrics/haproxy"}),
        (at, {**engine, "__metrics_path__": "/metrics/replica/0", "replica": "0"}),
        (at, {**engine, "__metrics_path__": "/metrics/replica/1", "replica": "1"}),
    ]


def test_exporters_of_others_are_targets_on_their_own_ports() -> None:
    one = MonitoredNode("n01", "fd00::5", "node", (), 9464, True, 0, 9100, dcgm=True)
    found = {t["labels"]["job"]: t["targets"] for t in targets([one])}
    assert found["node"] == ["[fd00::5]:9100"]
    assert found["dcgm"] == ["[fd00::5]:9400"]
    assert targets([one])[0]["labels"]["__scheme__"] == "https"


def test_whom_nobody_will_read_is_said() -> None:
    silent = MonitoredNode("n02", "10.0.0.6", "node")
    local = MonitoredNode("n03", "127.0.0.1", "node", port=9464)
    works = MonitoredNode("n04", "10.0.0.7", "member")
    assert [line.split(":")[0] for line in unread([NODE, silent, local, works])] == ["n02", "n03"]


def inventory(folder: Path, keys: str) -> Path:
    """An inventory of one node, with more keys."""
    path = folder / "site.py"
    path.write_text(INVENTORY.format(keys=keys))
    return path


@pytest.mark.process
def test_an_inventory_becomes_files_and_a_second_run_writes_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = inventory(tmp_path, 'monitoring={"from": ["10.0.9.5"]}')
    words = ["monitoring", str(tmp_path / "out"), "-i", str(site)]
    assert main(words) == 0
    written = capsys.readouterr().out.splitlines()
    assert len(written) == len(files.files([]))
    (own, *_) = json.loads((tmp_path / "out/b200-targets.json").read_text())
    assert own["targets"] == ["127.0.0.1:9464"]
    assert main(words) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("keys", ["", 'monitoring={"from": []}', "replicas=99"])
def test_an_inventory_without_metrics_or_with_a_fault_is_refused(
    tmp_path: Path, keys: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["targets", "-i", str(inventory(tmp_path, keys))]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    with pytest.raises(InventoryRefused):
        monitored.members(tmp_path / "none.py")


BOARDS = files.boards()


@pytest.mark.parametrize("name", BOARDS)
def test_panels_and_their_queries_have_names_of_their_own(name: str) -> None:
    board = BOARDS[name]
    assert board["uid"] == f"b200kit-{name}"
    for panel in board["panels"]:
        assert {t["refId"] for t in panel["targets"]} == {*"ABCDEF"[: len(panel["targets"])]}
    ids = [panel["id"] for panel in board["panels"]]
    assert len({*ids}) == len(ids)


@pytest.mark.parametrize("name", BOARDS)
def test_no_panel_lies_on_another(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARDS[name]["panels"]:
        at: dict[str, int] = panel["gridPos"]
        own = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not own & taken
        assert max(x for x, _ in own) < 24
        taken |= own


def test_queries_name_metrics_that_a_node_has() -> None:
    """A misspelt name is a panel or an alert that is always empty."""
    source = Path(metrics.__file__).read_text()
    texts = [expr for board in BOARDS.values() for expr in dashboards.queries(board)]
    rules: list[dict[str, Any]] = [r for g in files.rules()["groups"] for r in g["rules"]]
    texts += [rule["expr"] for rule in rules]
    names = {name for text in texts for name in re.findall(r"\bb200_[a-z_0-9]+", text)}
    assert names
    unknown = [n for n in names if n.removeprefix("b200_") not in source and "gpu_" not in n
               and not n.startswith("b200_record_")]  # fmt: skip
    assert unknown == []
