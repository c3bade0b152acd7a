"""A goal instead of figures, through the real CLI: settled, laid out, rendered, and stable."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.fake.fleet import Fleet
from tests.messages import assert_message

GOAL = """
engine["kind"] = "cuda"
model = "llama-3.3-70b-fp8"
goal = "balanced"
waivers = [
    {"check": "precision.validated", "owner": "ops", "reason": "J-1", "until": "2099-12-31"},
]
del replicas, tensor_parallel
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """One sound node that is asked for a goal and no figure."""
    fleet = Fleet(tmp_path)
    fleet.add("n01")
    site = fleet.folder / "group_data" / "nodes.py"
    site.write_text(site.read_text() + GOAL)
    return fleet


def test_goal_is_served_as_planned_and_the_second_run_changes_nothing(fleet: Fleet) -> None:
    run = fleet.run("b200.py")
    assert run.code == 0, run.stderr
    layout = run.hosts["n01"]["layout"]
    assert [replica["gpus"] for replica in layout] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert {replica["tp"] for replica in layout} == {2}
    assert layout[0]["cpus"] == "2-28,114-140"
    config = fleet.machine("n01").files["/etc/vllm/replica-3.yaml"]
    message = base64.b64decode(config["content"]).decode()
    for line in ("tensor-parallel-size: 2", "max-num-seqs: 128", "max-num-batched-tokens: 8192"):
        assert line in message
    again = fleet.run("b200.py")
    assert (again.code, again.hosts["n01"]["changes"], again.hosts["n01"]["commands"]) == (0, 0, 2)


def test_goal_that_the_model_cannot_have_is_refused_before_any_connection(fleet: Fleet) -> None:
    run = fleet.run("b200.py", "--data", "model=llama-3.1-405b-bf16", "--data", "replicas=2")
    assert run.code == 1
    message = [line for line in run.stderr.splitlines() if "n01: model:" in line]
    assert len(message) == 1
    assert_message(message[0], TMP=fleet.folder)
    assert "Connected" not in run.stderr
