"""deploy/tune.py on a simulated node, killed in the middle and run again: each cell once.

The stand-in's figures mean nothing; what is shown is the road: layouts deployed for real, cells on
the disk before the next begins, nothing measured twice, the node put back as it was.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess

import pytest

from b200kit.records import store
from b200kit.records.tuning import AnyLine, CellLine
from tests.e2e.conftest import Live
from tests.e2e.driving import ROOT, Outcome, command, deploy, on

pytestmark = pytest.mark.long

NODE = "b200-1"
TUNE = {
    "layouts": ["configured", "A"], "requests": 8, "seconds": 0,
    "initial_rate": 8, "max_rate": 16, "cells": 2,
}  # fmt: skip
ASKED = ("--data", f"tune={json.dumps(TUNE)}")


def serves(outcome: Outcome) -> None:
    """The node is live, or was put back as it was."""
    assert outcome.code == 0, outcome.said[-3000:]


@pytest.fixture(scope="module")
def killed(live: Live) -> list[AnyLine]:
    """The lines of a tuning that was killed as soon as it reported the second layout's cell."""
    live(1)
    serves(deploy())
    with subprocess.Popen(
        command("tune.py", *ASKED), cwd=ROOT, env=os.environ,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as run:  # fmt: skip
        assert run.stderr is not None
        said = []
        for line in run.stderr:
            said.append(line)
            if "(A): chat 8/s" in line:
                break
        run.send_signal(signal.SIGKILL)
    lines = store.tuning_of(NODE)
    assert lines, "".join(said)[-3000:]
    return lines


@pytest.fixture(scope="module")
def resumed(killed: list[AnyLine]) -> Outcome:
    """The same tuning, run again to its end."""
    assert len(on(NODE, "ls /etc/vllm").split()) == 4, "it was killed on the second layout"
    outcome = deploy("tune.py", *ASKED)
    serves(outcome)
    return outcome


def test_each_cell_is_measured_once_whatever_killed_the_run(
    killed: list[AnyLine], resumed: Outcome
) -> None:
    """A cell whose client starved on a busy machine is failed, and measured again; none else is."""
    lines = store.tuning_of(NODE)
    assert lines[: len(killed)] == killed
    done = [_named(line) for line in cells(lines) if line.cell.status == "done"]
    assert len(done) == len(set(done))
    before = list(map(_named, cells(killed)))
    assert before[0] == (4, 8)
    assert before[-1] == (2, 8)
    found = resumed.host(NODE)["tuning"]
    assert {(c["layout"]["tensor_parallel"], c["rate"]) for c in found["cells"]} >= set(done)


def cells(lines: list[AnyLine]) -> list[CellLine]:
    """Those of them that are cells."""
    return [line for line in lines if isinstance(line, CellLine)]


def _named(line: CellLine) -> tuple[int, float | None]:
    return line.cell.layout.tensor_parallel, line.cell.rate


def test_choice_is_written_and_the_node_is_as_its_inventory_says(resumed: Outcome) -> None:
    assert resumed.directory is not None
    values = runpy.run_path(str(resumed.directory / f"{NODE}.layout.py"))
    layout = resumed.host(NODE)["tuning"]["chosen"]["layout"]
    assert {k: v for k, v in layout.items() if k != "names"}.items() <= values.items()
    assert on(NODE, "ls /etc/vllm").split() == ["replica-0.yaml", "replica-1.yaml"]
    again = deploy().host(NODE)["stages"]
    assert [stage["name"] for stage in again if stage["changes"] and stage["name"] != "smoke"] == []
