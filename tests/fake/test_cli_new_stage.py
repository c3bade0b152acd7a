"""CONTRIBUTING's "Adding a stage", done: one step in the pipeline's order is all it takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fake.fleet import Fleet
from tests.messages import assert_message

# An inventory is Python and runs in pyinfra's process: this one adds the stage as an author would.
MODULE = """
from dataclasses import replace

from b200kit.converge.stage import Stage, DesiredState, converge
from b200kit.node.state.drift import File
from b200kit.run.render import RenderError
from b200kit.stages import pipeline


def desired(node, layout):
    if node.name == {unrenderable!r}:
        raise RenderError("motd.j2: 'motto' is undefined")
    return DesiredState(files=(File("/etc/motd", b"measured\\n"),), probe_files=("/etc/issue",))


def plan(node):
    assert "/etc/issue" in node.state["files"]
    return converge(node, desired(node, ()))


_titles = [step.title for step in pipeline.STEPS]
_after = _titles.index("Passport") + 1
_step = pipeline.PipelineStep("Message of the day", Stage(name="motd", desired=desired, plan=plan))
pipeline.STEPS = (*pipeline.STEPS[:_after], _step, *pipeline.STEPS[_after:])
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """One sound node."""
    fleet = Fleet(tmp_path / "site")
    fleet.add("n01")
    return fleet


def test_added_stage_is_rendered_before_the_first_connection(fleet: Fleet) -> None:
    fleet.preamble = MODULE.format(unrenderable="n01")
    run = fleet.run("b200.py")
    assert run.code == 1
    assert_message(*[line for line in run.stderr.splitlines() if "motd.j2" in line])
    assert fleet.machine("n01").log == []


def test_added_stage_is_planned_observed_run_in_its_place_and_settles(fleet: Fleet) -> None:
    fleet.preamble = MODULE.format(unrenderable="")
    dry = fleet.run("b200.py", "--dry", yes=False)
    assert dry.code == 0, dry.stderr
    assert "n01  motd           would write /etc/motd" in dry.stderr

    run = fleet.run("b200.py")
    assert run.code == 0, run.stderr
    assert fleet.machine("n01").text("/etc/motd") == "measured\n"
    assert run.operations.index("Message of the day") == run.operations.index("Passport") + 1
    stages = {stage["name"]: stage["changes"] for stage in run.hosts["n01"]["stages"]}
    assert stages["motd"] == ["write /etc/motd"]

    again = fleet.run("b200.py")
    assert (again.code, again.hosts["n01"]["changes"]) == (0, 0)
