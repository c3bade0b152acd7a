"""deploy/find_gpu.py through the real CLI: refused where clients may be served, else put back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from b200kit.node.client.correctness import CorrectnessResult
from b200kit.node.client.golden.reference import PATH, Reference
from b200kit.node.client.prompts import Scale
from b200kit.node.lib.documents import to_bytes
from tests.fake.fleet import Fleet
from tests.messages import assert_message
from tests.unit.node.client.golden_answers import answers

DRAINED = "vllm0  DRAIN  0 requests\nvllm1  DRAIN  0 requests\n"
FOUND = CorrectnessResult((), Scale(), same_text=True, engine_version=None)
OTHER = replace(FOUND, problems=("answers otherwise than the reference",))
RIGHT = (True, to_bytes(FOUND).decode())
WRONG = (False, to_bytes(OTHER).decode())


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """One node that b200.py took live, with a reference."""
    fleet = Fleet(tmp_path_factory.mktemp("find-gpu") / "site")
    fleet.add("n01")
    assert fleet.run("b200.py").code == 0
    machine = fleet.machine("n01")
    name = json.loads(machine.text("/etc/b200kit/serving.json"))["golden_for"]
    kept = Reference(answers(), 32, "n01, today", name)
    machine.write(PATH, to_bytes(kept))
    machine.log.clear()
    machine.save()
    return fleet


@pytest.fixture
def fleet(live: Fleet, tmp_path: Path) -> Fleet:
    """The same, for one test."""
    return live.copy(tmp_path / "site", "n01")


def rotated(fleet: Fleet, table: str, **answer: tuple[bool, str]) -> tuple[int, str]:
    """Exit code and error of a run over a node that answers so."""
    machine = fleet.machine("n01")
    machine.answers = {**answer, "rotation list": (True, table), "correctness-check": RIGHT}
    # The shell of the fake knows no cat.
    kept = (True, machine.text(PATH)) if PATH in machine.files else (False, "")
    machine.answers |= {f"cat {PATH}": kept}
    machine.save()
    run = fleet.run("find_gpu.py")
    return run.code, str(run.hosts["n01"]["error"])


def test_node_that_may_serve_or_has_no_reference_is_left_alone(fleet: Fleet) -> None:
    refused = [rotated(fleet, table) for table in (
        "vllm0  UP  0 requests\nvllm1  DRAIN  0 requests\n",
        "vllm0  DRAIN  0 requests\nvllm1  DRAIN  2 requests\n",
    )]  # fmt: skip
    machine = fleet.machine("n01")
    del machine.files[PATH]
    machine.save()
    refused.append(rotated(fleet, DRAINED))
    assert [code for code, _ in refused] == [1, 1, 1]
    assert_message(*(error for _, error in refused))
    assert not fleet.machine("n01").ran("systemctl stop")


@pytest.mark.process
def test_gpus_are_moved_and_put_back_whatever_is_found(fleet: Fleet) -> None:
    before = fleet.machine("n01").text("/etc/b200kit/serving.json")
    assert rotated(fleet, DRAINED) == (0, "None")
    assert fleet.machine("n01").text("/etc/b200kit/serving.json") == before
    code, error = rotated(fleet, DRAINED, **{"correctness-check .*--replica 1": WRONG})
    assert code == 1
    assert_message(error)
    assert fleet.machine("n01").text("/etc/b200kit/serving.json") == before
