"""A state that was planned without a change is planned once, and no other is taken for it."""

from __future__ import annotations

from copy import copy
from pathlib import Path

import pytest

from b200kit.converge.stage import Change, Stage, nothing
from b200kit.operations import dry_run, steps
from b200kit.run.node import Node, StageFailed
from b200kit.stages import pipeline
from tests.unit.nodes import spec


class Planned:
    """A pipeline of one stage, and how often it was planned."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        self.answer: list[Change] | None = []
        self.stage = Stage(name="made-up", desired=nothing, plan=self.plan)
        step = pipeline.PipelineStep("Made up", self.stage)
        monkeypatch.setattr(pipeline, "STEPS", (step,))

    def plan(self, node: Node) -> list[Change]:
        """What the test says."""
        self.times += 1
        if self.answer is None:
            raise StageFailed("cannot be planned")
        return self.answer


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node that was observed."""
    found = Node("n01", spec(tmp_path))
    found.state = {"schema": "made up"}
    return found


def test_state_that_changes_nothing_is_planned_once(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = Planned(monkeypatch)
    assert dry_run.foresee(node) == []
    assert (steps._plan(node, planned.stage), planned.times) == ([], 1)


@pytest.mark.parametrize("answer", [[Change("write it", lambda node: None)], None])
def test_what_changes_or_cannot_be_planned_is_planned_again(
    answer: list[Change] | None, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = Planned(monkeypatch)
    planned.answer = answer
    dry_run.foresee(node)
    planned.answer = []
    steps._plan(node, planned.stage)
    assert planned.times == 2


@pytest.mark.parametrize("what", ["state", "spec"])
def test_another_state_or_spec_is_planned_again(
    what: str, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = Planned(monkeypatch)
    dry_run.foresee(node)
    if what == "state":
        node.state = {"schema": "made up"}
    else:
        node.spec = copy(node.spec)
    steps._plan(node, planned.stage)
    assert planned.times == 2
