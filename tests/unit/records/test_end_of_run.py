"""The end of a run: what was measured is recorded once, held against the record, and diagnosed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.lib.documents import unstructure
from b200kit.records import end_of_run, machines, provenance
from b200kit.records.conditions import RunConditions, missing, value_of
from b200kit.records.store import Records
from b200kit.run.node import Node
from b200kit.store import database
from b200kit.store.database import SITE
from tests.messages import assert_message
from tests.unit import nodes, smoke_results
from tests.unit.records import runs
from tests.unit.report.pages import terminal, write


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node that serves, with a result that was just measured, and an empty record."""
    found, _ = nodes.settled(tmp_path)
    found.layout()
    found.record.smoke = smoke_results.result()
    found.record.outcome = "live"
    assert found.record.state is not None
    found.record.state["notes"]["warm"] = {
        n: {"warm": True, "rounds": [{}] * 4} for n in ("0", "1")
    }
    return found


def ended(node: Node) -> dict[str, Any]:
    """The document of a run over this node, taken in."""
    hosts = dict(end_of_run.hosts({node.name: node}, "20261121-1"))
    return {"schema": "b200kit/run/1", "run": "20261121-1", "entry": "b200.py", "hosts": hosts}


def kept() -> Any:
    """The record on the disk."""
    return Records().read("n01")


def test_result_is_recorded_with_its_conditions(node: Node) -> None:
    ended(node)
    known = kept()
    assert [run.run for run in known.runs] == ["20261121-1"]
    run_conditions = known.runs[0].conditions
    assert missing(run_conditions) == []
    assert value_of(run_conditions, "versions.driver") == nodes.DRIVER
    assert value_of(run_conditions, "load.model") == "tiny-llama"
    assert value_of(run_conditions, "serving.tp") == 4
    config = value_of(run_conditions, "serving.config")
    assert isinstance(config, dict)
    assert config["max-num-seqs"] == 8


def test_report_gets_the_runs_in_a_row_and_the_conditions(node: Node) -> None:
    found = ended(node)["hosts"]["n01"]["record"]
    assert [run["id"] for run in found["timeline"]["runs"]] == [kept().runs[0].id]
    assert found["conditions"] == unstructure(kept().runs[0].conditions)


def test_what_is_not_collected_is_named(node: Node) -> None:
    reasons = missing(provenance.run_conditions(node), needed=False)
    assert_message(*reasons)


def test_no_secret_is_in_the_record(node: Node) -> None:
    ended(node)
    assert b"canary" not in SITE.path.read_bytes()


def test_same_result_is_recorded_once(node: Node) -> None:
    ended(node)
    ended(node)
    assert len(kept().runs) == 1


def test_result_of_an_earlier_run_is_compared_and_not_recorded(node: Node) -> None:
    node.record.smoke_age_s = 7200.0
    host = ended(node)["hosts"]["n01"]
    assert kept().runs == ()
    assert host["record"]["outcome"] == "unclear"
    assert host["diagnosis"]["fired"] == []


def test_result_without_its_conditions_is_not_recorded_and_the_field_is_named(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    assert node.record.state is not None
    node.record.state["nvml"] = {"unmeasured": "NVML did not answer"}
    host = ended(node)["hosts"]["n01"]
    assert kept().runs == ()
    assert_message(host["record"]["unmeasured"])
    assert_message(capsys.readouterr().err)


def test_record_that_cannot_be_written_costs_no_report(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(database.VARIABLE, str(tmp_path))
    assert "unmeasured" in ended(node)["hosts"]["n01"]["record"]


def test_mistake_of_ours_costs_no_report(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "requested", lambda *_: 1 / 0)
    host = ended(node)["hosts"]["n01"]
    assert "internal error, ZeroDivisionError" in host["record"]["unmeasured"]
    assert host["diagnosis"]["fired"] == []


def test_node_without_a_result_has_neither(node: Node) -> None:
    node.record.smoke = None
    host = ended(node)["hosts"]["n01"]
    assert "record" not in host
    assert "diagnosis" not in host


def test_regression_and_diagnosis_are_shown(
    node: Node, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended(node)
    own = kept().runs[0].conditions
    for number, day in enumerate([*runs.days(1, 6, 0.01), *runs.days(2, 6, 0.01, 0.2)]):
        entry = runs.run(number, day)
        new = {"versions.driver": "580.159.03"} if number >= 6 else {}
        fields = {"run.cache_salt": f"{number}", "run.taken_at": entry.at, **new}
        entry = replace(entry, conditions=RunConditions({**own.fields, **fields}))
        Records().append("n01", entry)
    accept(node)
    # The newest run is of the slow six's system, and one that queues.
    assert node.record.state is not None
    node.record.state["nvml"]["driver_version"] = "580.159.03"
    healthy = smoke_results.document({"load.cache_salt": "new"})
    slow = smoke_results.medians({metric: 1.2 * ms for metric, ms in runs.BASE.items()})
    own = {key: healthy[key] for key in ("conditions", "load")} | {"main.ttft.p95_ms": 500.0}
    node.record.smoke = smoke_results.result(own | slow, "queueing")
    run = ended(node)
    text = terminal(run)
    assert "DIFFERENT" in text
    assert f"driver {nodes.DRIVER} -> 580.159.03" in text
    assert "P99 bad, P50 good" in text
    assert all(len(line) <= 100 for line in text.splitlines())
    page = write(run, tmp_path / "reports").read_text()
    for words in (
        "Against the record",
        "DIFFERENT",
        "580.159.03",
        "P99 bad, P50 good",
        "-&gt; lay",
    ):
        assert words in page
    capsys.readouterr()


def accept(node: Node) -> None:
    """The first six runs are the baseline."""
    first = [run for run in kept().runs if run.run in {f"run-{n}" for n in range(6)}]
    entry = runs.accepted(first)
    Records().append(node.name, entry)


def test_every_run_keeps_which_machine_a_node_is(node: Node) -> None:
    """For a power cycle when it no longer answers."""
    node.record.smoke = None
    assert node.record.state is not None
    node.record.state["host"]["product_uuid"] = "4c4c4544-0053-4d10-8052-b6c04f373033"
    node.record.state["host"]["product_serial"] = "7SMR703"
    ended(node)
    node.record.state = None
    ended(node)
    known = machines.known("n01")
    assert str(known) == "UUID 4c4c4544-0053-4d10-8052-b6c04f373033, serial number 7SMR703"


def test_machine_that_cannot_be_kept_is_said_and_costs_no_report(
    node: Node,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    node.record.smoke = None
    assert node.record.state is not None
    node.record.state["host"]["product_serial"] = "7SMR703"
    monkeypatch.setenv(database.VARIABLE, str(tmp_path))
    ended(node)
    assert_message(capsys.readouterr().err)
