"""contrib/slurm.py against recorded answers of the Slurm that tests/e2e/test_slurm.py has."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from b200kit.reprovision.actions import ActionFailed
from b200kit.reprovision.traffic import CommandTraffic
from b200kit.run.node import Node
from tests.messages import assert_message, raises_message
from tests.unit.contrib.conftest import CONTRIB
from tests.unit.nodes import spec
from tests.unit.programs import Programs

NAME = "b200-2"
SHOW = f"scontrol|show|node|{NAME}|--oneliner"
SLURM = CommandTraffic((str(CONTRIB / "slurm.py"),))
_RECORDED = Path(__file__).parents[2] / "data" / "slurm-22.05.yaml"
ANSWERS: dict[str, str] = yaml.safe_load(_RECORDED.read_text("utf-8"))
# It lasts for less than a look: seen, and not recorded.
ANSWERS["completing"] = ANSWERS["drained"].replace("State=IDLE", "State=IDLE+COMPLETING")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """The node of the recorded answers."""
    return Node(NAME, spec(tmp_path))


@pytest.mark.parametrize(
    ("state", "taken_out", "brought_back"),
    [
        ("idle", True, False),
        ("allocated", True, False),
        ("draining", True, True),
        ("drained", True, True),
        ("resumed", True, False),
        ("administrator-drain", False, False),
        ("administrator-down", False, False),
        ("administrator-fail", False, False),
        ("lines-and-comment", False, False),
        ("lost", True, True),
        ("lost-after-us", True, True),
        ("rebooted", True, True),
        ("rebooted-after-us", True, True),
    ],
)
def test_node_is_changed_where_nobody_else_took_it_out(
    programs: Programs, tmp_path: Path, state: str, taken_out: bool, brought_back: bool
) -> None:
    name = ANSWERS[state].partition(" ")[0].removeprefix("NodeName=")
    node = Node(name, spec(tmp_path))
    programs.answer("scontrol", ("show", ANSWERS[state], 0), ("update", "", 0))
    told = SLURM.drain(node, "GPU 2\nhas no\0 NVLink")
    change = "State=DRAIN|Reason=b200kit: GPU 2 has no\\x00 NVLink"
    assert programs.ran()[1:] == [f"scontrol|update|NodeName={name}|{change}"] * taken_out
    assert_message(told, SLURM.undrain(node, 100))
    assert programs.ran()[1:] == [f"scontrol|update|NodeName={name}|State=RESUME"] * brought_back


def test_there_is_no_share(programs: Programs, node: Node) -> None:
    assert "no shares" in SLURM.undrain(node, 5)
    assert programs.ran() == []


@pytest.mark.parametrize(
    ("said", "code", "state", "jobs"),
    [
        ("", 0, "drained", 0),
        ("4711\n4712\n4711", 0, "draining", 2),
        # Two that tell of the same thing, and differ.
        ("", 0, "draining", None),
        ("", 0, "completing", None),
        ("", 0, "controller-down", None),
        ("", 0, "several", None),
        (ANSWERS["squeue-controller-down"], 1, "drained", None),
        (ANSWERS["squeue-unknown"], 1, "drained", None),
        ("something else", 0, "drained", None),
    ],
)
def test_jobs_are_counted_or_nobody_knows(
    programs: Programs, node: Node, said: str, code: int, state: str, jobs: int | None
) -> None:
    programs.answer("squeue", ("", said, code))
    programs.answer("scontrol", ("show", ANSWERS[state], int(state == "controller-down")))
    assert SLURM.status(node) == jobs
    states = "--states=CONFIGURING,RUNNING,COMPLETING,SUSPENDED,STOPPED"
    asked = f"squeue|--all|--noheader|--nodelist={NAME}|{states}|--format=%A"
    read = state not in ("controller-down", "several")
    assert programs.ran() == [SHOW, *([asked] if read else [])]


def test_jobs_that_have_the_node_are_cancelled_by_number(programs: Programs, node: Node) -> None:
    programs.answer("scontrol", ("show", ANSWERS["drained"], 0))
    (programs.folder / "squeue").write_text('#!/bin/sh\n[ -e "$0.cut" ] || echo 4711 4712 4711\n')
    (programs.folder / "squeue").chmod(0o755)
    (programs.folder / "scancel").write_text(
        f'#!/bin/sh\necho "$@" > {programs.folder}/squeue.cut\n'
    )
    (programs.folder / "scancel").chmod(0o755)
    assert_message(SLURM.cut(node))
    assert (programs.folder / "squeue.cut").read_text() == "4711 4712\n"


@pytest.mark.parametrize("said", ["--user=root", "4711 all"])
def test_nothing_is_cancelled_by_what_is_no_number(
    programs: Programs, node: Node, said: str
) -> None:
    programs.answer("squeue", ("", said, 0))
    programs.answer("scancel", ("", "", 0))
    with raises_message(ActionFailed):
        SLURM.cut(node)
    assert not [line for line in programs.ran() if line.startswith("scancel")]


@pytest.mark.parametrize("state", ["idle", "allocated", "resumed"])
def test_node_that_somebody_resumed_meanwhile_is_not_drained(
    programs: Programs, node: Node, state: str
) -> None:
    programs.answer("squeue", ("", "", 0))
    programs.answer("scontrol", ("show", ANSWERS[state], 0))
    with raises_message(ActionFailed):
        SLURM.status(node)


def test_what_a_person_set_for_his_own_look_at_the_queue_does_not_count(
    programs: Programs, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs.answer("scontrol", ("show", ANSWERS["draining"], 0))
    (programs.folder / "squeue").write_text('#!/bin/sh\n[ -n "$SQUEUE_USERS" ] || echo 4711\n')
    (programs.folder / "squeue").chmod(0o755)
    monkeypatch.setenv("SQUEUE_USERS", "nobody")
    assert SLURM.status(node) == 1


@pytest.mark.parametrize("said", ["unknown", "controller-down", "several"])
def test_refusal_is_one_line_and_nothing_is_changed(
    programs: Programs, node: Node, said: str
) -> None:
    programs.answer("scontrol", ("show", ANSWERS[said], int(said != "several")))
    with raises_message(ActionFailed):
        SLURM.drain(node, "why")
    with raises_message(ActionFailed):
        SLURM.undrain(node, 100)
    assert programs.ran() == [SHOW, SHOW]


def test_program_that_is_not_there_is_one_line(programs: Programs, node: Node) -> None:
    del programs
    with raises_message(ActionFailed):
        SLURM.drain(node, "why")
    assert SLURM.status(node) is None
