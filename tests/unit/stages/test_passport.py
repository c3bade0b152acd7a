"""Passport: issued once to a fit node, kept until it is asked to be renewed."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit.node.checks.host import passport_record
from b200kit.node.checks.judge import judge
from b200kit.node.state.expectation import PATH as EXPECT
from b200kit.run.node import StageFailed
from b200kit.stages import gate
from b200kit.stages import passport as stage
from tests.unit.nodes import look, make, planned, settled


def test_a_node_that_was_never_accepted_gets_one(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    del machine.files[passport_record.PATH]
    look(node)
    assert planned(node, "passport") == ["issue the passport"]
    make(node, "passport")
    assert planned(node, "passport") == []
    assert node.state is not None
    assert passport_record.same(node.state["notes"]["passport"], passport_record.issue(node.state))


def test_a_swapped_gpu_is_refused_until_the_passport_is_renewed(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.hardware["gpus"][2]["serial"] = "1650000000099"
    look(node)
    found = judge(gate.expectation(node), node.state).blocking
    assert [finding.check for finding in found] == ["passport.gpus"]
    assert planned(node, "passport") == []


def test_renewal_accepts_what_is_there_and_then_changes_nothing(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, passport="renew")
    machine.hardware["gpus"][2]["serial"] = "1650000000099"
    look(node)
    assert judge(gate.expectation(node), node.state).fit == "fit"
    assert planned(node, "passport") == ["renew the passport"]
    make(node, "passport")
    assert planned(node, "passport") == []


def test_the_node_itself_never_judges_by_a_renewal(tmp_path: Path) -> None:
    """A renewal is for the run that asks for it; a swap after it must be seen at the next boot."""
    node, _ = settled(tmp_path, passport="renew")
    file = next(f for f in gate.desired(node, ()).files if f.path == EXPECT)
    assert b'"passport": "keep"' in file.content


def test_a_node_that_cannot_be_read_gets_none(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    del machine.files[passport_record.PATH]
    machine.hardware["gpus"][2]["serial"] = {"unmeasured": "for the test"}
    look(node)
    with pytest.raises(StageFailed, match=r"gpus\[2\]\.serial"):
        stage.plan(node)
