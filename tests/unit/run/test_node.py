"""The record of a run: outcomes in our words, the first failure, and never a secret."""

from __future__ import annotations

import gzip
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from b200kit.inventory.secrets import Secret
from b200kit.node.lib.documents import unstructure
from b200kit.node.lib.error_line import cause
from b200kit.node.placement import layout as layouts
from b200kit.node.placement.layout import Replica
from b200kit.operations.gate import conclude
from b200kit.records import end_of_run
from b200kit.run.node import Node, StageFailed, duration
from b200kit.run.remote import AS_ROOT
from b200kit.run.session import Session
from b200kit.stages import pipeline
from tests.messages import assert_message, raises_message
from tests.subtests import in_subtests
from tests.unit.nodes import bare, make, settled, spec
from tests.unit.report.pages import write


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node nobody has connected to."""
    return Node("n01", spec(tmp_path), {"api_key": Secret(b"canary-api-key")})


def test_node_nobody_reached_is_not_reached(node: Node) -> None:
    record = node.to_json()
    assert record["outcome"] == "not reached"
    assert (record["commands"], record["changes"], record["state"]) == (0, 0, None)


@pytest.mark.parametrize("outcome", ["failed", "red", "unreachable"])
def test_failure_keeps_its_stage_and_cause(node: Node, outcome: str) -> None:
    node.fail("driver", "E: no package", outcome)
    record = node.to_json()
    assert (record["outcome"], record["stage"]) == (outcome, "driver")
    assert record["error"] == "E: no package"


@pytest.mark.parametrize(("stage", "cause"), [("connect", "no-answer"), ("smoke", None)])
def test_node_that_was_not_looked_at_has_the_code_of_why(
    node: Node, stage: str, cause: str | None
) -> None:
    node.fail(stage, "Could not connect (timed out)")
    assert node.to_json().get("cause") == cause


def test_first_failure_stands(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.fail("gate", "GPU 2 has no NVLink", outcome="red")
    node.fail("operation", "failed; see the lines above")
    assert (node.record.outcome, node.record.stage) == ("red", "gate")
    assert_message(node.record.error, capsys.readouterr().err)


def test_progress_goes_to_stderr_with_the_time_it_took(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    node.say("driver", "2 changes", 21.3)
    node.say("fabric", "ok", 0.1)
    assert_message(*capsys.readouterr())


def test_stage_that_fails_inside_keeps_what_it_had_begun(node: Node) -> None:
    def fails() -> None:
        with node.stage("driver") as entry:
            entry.changes.append("install nvidia-open")
            raise StageFailed("no package")

    with pytest.raises(StageFailed):
        fails()
    [stage] = node.to_json()["stages"]
    assert (stage["name"], stage["status"]) == ("driver", "failed")
    assert stage["changes"] == ["install nvidia-open"]
    assert stage["seconds"] >= 0


def test_stage_says_whether_it_changed_anything(node: Node) -> None:
    with node.stage("host"):
        pass
    with node.stage("driver") as entry:
        entry.changes += ["one", "two"]
    assert [stage.status for stage in node.record.stages] == ["ok", "changed"]
    assert node.record.changes == 2


def test_stage_that_needs_a_connection_says_that_there_is_none(node: Node) -> None:
    with pytest.raises(StageFailed, match="not connected"):
        node.connected()


def test_live_node_says_its_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node, _ = settled(tmp_path)
    with node.stage("host") as entry:
        entry.changes.append("one")
    conclude(node)
    assert node.record.outcome == "live"
    assert "LIVE           1 change\n" in capsys.readouterr().err


def test_live_node_without_a_change_says_age_and_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node, _ = settled(tmp_path)
    node.record.smoke_age_s = 192.0
    assert node.remote is not None
    node.remote.commands = 3
    conclude(node)
    assert_message(capsys.readouterr().err)


def test_node_that_was_never_seen_is_not_live(node: Node) -> None:
    with pytest.raises(StageFailed, match="not measured"):
        conclude(node)


def test_record_of_a_whole_run_holds_no_secret(tmp_path: Path) -> None:
    node, _ = bare(tmp_path)
    for stage in pipeline.stages(before=pipeline.PipelineCheckpoint.REBOOT):
        make(node, stage.name)
    run = Session(entry="b200.py", nodes={"n01": node})
    record = unstructure(run.head()) | {"hosts": dict(end_of_run.hosts(run.nodes, run.id))}
    assert "canary-" not in json.dumps(record)
    assert "canary-" not in repr(node) + repr(run) + str(node.secrets)
    write(record, tmp_path / "reports")
    paths = [path for path in (tmp_path / "reports").rglob("*.*") if path.is_file()]
    raw = [(path, path.read_bytes()) for path in paths]
    written = [str(gzip.decompress(r) if p.suffix == ".gz" else r) for p, r in raw]
    assert len(written) == 4
    assert not any("canary-api" in text for text in written)


def test_record_is_plain_json_with_its_hosts_in_order(tmp_path: Path) -> None:
    nodes = {name: Node(name, spec(tmp_path)) for name in ("n02", "n01")}
    run = Session(entry="b200.py", nodes=nodes)
    record = json.loads(json.dumps(unstructure(run.head())))
    assert record["schema"] == "b200kit/run/1"
    assert list(dict(end_of_run.hosts(nodes, run.id))) == ["n01", "n02"]
    assert record["controller"]["commands"] == 0
    assert record["ended_at"] >= record["started_at"]


def test_layout_that_cannot_be_is_a_failure_of_the_stage(node: Node) -> None:
    node.take_observation({"gpus": []})
    with raises_message(StageFailed):
        node.layout()


@pytest.mark.parametrize(
    ("entry", "changes"), [("b200.py", True), ("smoke.py", True), ("check.py", False)]
)
def test_only_check_leaves_the_nodes_unlocked(entry: str, changes: bool) -> None:
    assert Session(entry=entry).changes_nodes is changes


@in_subtests(
    ("seconds", "said"),
    [
        (0, "0.0 s"),
        (0.64, "0.6 s"),
        (9.94, "9.9 s"),
        (10, "10 s"),
        (21.4, "21 s"),
        (59.4, "59 s"),
        (59.6, "1 m 00 s"),
        (192, "3 m 12 s"),
        (3700, "61 m 40 s"),
    ],
)
def test_span_is_said_as_a_person_does(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_secret_shows_only_that_it_exists() -> None:
    secret = Secret(b"canary")
    assert f"{secret} {secret!r} {[secret]} {vars(Session(entry=''))}".count("canary") == 0
    assert secret.reveal() == b"canary"


def test_user_who_is_not_root_is_named_before_anything_is_written(tmp_path: Path) -> None:
    program = tmp_path / "id"
    program.write_text('#!/bin/sh\ntest "$1" = -u && echo 1000 || echo admin\n')
    program.chmod(0o755)
    script = f"{AS_ROOT}; : > {tmp_path}/written"
    done = subprocess.run(
        ["/bin/sh", "-c", script], env={"PATH": str(tmp_path)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert_message(cause(done.stderr.splitlines()))
    assert not (tmp_path / "written").exists()


def test_layout_is_made_once_for_an_observation_and_a_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, _ = settled(tmp_path)
    made: list[object] = []
    place = layouts.place

    def noting(*arguments: Any) -> list[Replica]:
        made.append(arguments)
        return place(*arguments)

    monkeypatch.setattr(layouts, "place", noting)
    node._placed = ([], None, None)
    first = node.layout()
    assert node.layout() == first
    assert len(made) == 1
    node.state = dict(node.state or {})
    assert node.layout() == first
    node.spec = node.spec.model_copy()
    assert node.layout() == first
    assert len(made) == 3
    node.rotated = 4
    assert node.layout()[0].gpus == first[1].gpus
    assert len(made) == 3


def test_run_says_itself_whether_its_nodes_are_simulated(tmp_path: Path) -> None:
    node, _ = settled(tmp_path)
    assert not Session(entry="b200.py", nodes={"n01": node}).head().simulated
    assert Session(entry="b200.py", simulated=True).head().simulated
    # In a lab one process on CPUs may stand for all GPUs of a replica.
    node.spec = node.spec.replace(engine=node.spec.engine.replace(kind="stand-in"))
    node._placed = ([replace(one, cpus="0") for one in node.layout()], None, None)
    assert Session(entry="b200.py", nodes={"n01": node}).head().simulated
