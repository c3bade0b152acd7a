"""The gate on the node: its verdict, what the journal shows, and what it leaves behind."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from b200kit.node import gate
from b200kit.node.checks.judge import judge
from b200kit.node.lib import boot_clock
from tests.unit import paths, states
from tests.unit.states import State


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> State:
    """A node whose observation is the returned state, to be spoiled by the test."""
    state = states.healthy()
    monkeypatch.setattr(gate, "observe", lambda *_: state)
    monkeypatch.setattr(gate, "claim_stdout", lambda: os.dup(1))
    monkeypatch.setattr(gate, "wait", lambda *_: None)
    monkeypatch.setattr(gate, "STATE_DIRECTORY", tmp_path / "state")
    return state


@pytest.fixture
def expect(tmp_path: Path) -> str:
    """Path of the healthy node's expectation, without a date as the node has it."""
    document = states.expectation()
    del document["today"]
    path = tmp_path / "expect.json"
    path.write_text(json.dumps(document))
    return str(path)


@pytest.mark.usefixtures("node")
def test_fit_node_passes_and_leaves_its_verdict(
    expect: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert gate.main(["--expect", expect]) == 0
    assert capfd.readouterr().out.startswith("gate: fit (")
    kept = json.loads((tmp_path / "state" / "verdict.json").read_text())
    assert kept["fit"] == "fit"
    assert kept["taken_at"]
    # The evidence of a proof is of this boot.
    assert kept["boot_id"] == boot_clock.now().boot_id


def test_unfit_node_is_refused_and_says_why_on_one_line() -> None:
    state, expectation = states.healthy(), states.expectation()
    state["gpus"][2]["links"][4]["state"] = 0
    verdict = judge(expectation, state)
    text = gate.lines(verdict)
    assert text[0].startswith("gate: unfit (")
    said, todo = text[1].split(" -> ")
    assert said == "fail: GPU 2 has 17 of 18 NVLinks up: NVLink 4 down"
    assert todo.startswith("reset the GPU, then reboot the node; if it returns, replace GPU 2 (mod")
    assert len(text) == 2


@pytest.mark.parametrize(
    ("keys", "value", "status"),
    [
        (("gpus", 2, "mig"), True, 1),
        (("gpus", 2, "mig"), {"unmeasured": "no"}, 2),
        (("schema",), "other", 2),
    ],
)
def test_exit_status_tells_unfit_from_unmeasured(
    node: State, expect: str, keys: tuple[str | int, ...], value: object, status: int
) -> None:
    paths.put(node, keys, value)
    assert gate.main(["--expect", expect]) == status


@pytest.mark.parametrize("content", [None, "", "{", "[]", "{}"])
@pytest.mark.usefixtures("node")
def test_expectation_that_cannot_be_read_lets_nothing_serve(
    content: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "other.json"
    if content is not None:
        path.write_text(content)
    assert gate.main(["--expect", str(path)]) == 2


def test_waiver_is_held_against_the_date_of_this_boot(node: State, tmp_path: Path) -> None:
    node["gpus"][5]["vbios"] = "97.00.00.00.01"
    waiver = {"check": "uniform.vbios", "owner": "ops", "reason": "J-1"}
    statuses = []
    for until in ("2000-01-01", "9999-12-31"):
        document = {**states.expectation(), "waivers": [{**waiver, "until": until}]}
        (tmp_path / "e.json").write_text(json.dumps({**document, "today": "1999-01-01"}))
        statuses.append(gate.main(["--expect", str(tmp_path / "e.json")]))
    assert statuses == [1, 0]


def test_gate_asks_for_what_the_checks_need() -> None:
    ask = gate.ask(states.expectation())
    assert {"nvidia-fabricmanager.service", "nvidia-persistenced.service"} <= set(ask["units"])
    assert {"nvlsm", "libnvsdm", "nvidia-fabricmanager"} <= set(ask["packages"])
    assert {"vm.swappiness", "kernel.panic"} <= set(ask["sysctls"])
    assert gate.ask(None) == {"units": [], "packages": [], "placement": [], "disks": []}
