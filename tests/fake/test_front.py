"""`b200 deploy|check|...` over a fleet in memory: our lines alone, and the exit code of the run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from b200kit.report.outcome import exit_code
from tests.fake.fleet import Fleet, reported, taken_away
from tests.fake.forked import ROOT
from tests.unit import states

pytestmark = pytest.mark.process


def begin(fleet: Fleet, *words: str) -> subprocess.Popen[str]:
    """A command of b200 over the fleet's inventory, in a session of its own."""
    (_, inventory, *_), options = fleet.command("b200.py")
    program = [sys.executable, "-m", "b200kit.cli", words[0], "-i", str(inventory), *words[1:]]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        program, cwd=ROOT, env=options["env"], stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe,
        text=True, start_new_session=True,
    )  # fmt: skip


def run(fleet: Fleet, *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr; the report is taken away."""
    process = begin(fleet, *words)
    out, err = process.communicate(timeout=600)
    if folder := reported(out):
        taken_away(folder)
    return process.returncode, out, err


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Two bare nodes."""
    fleet = Fleet(tmp_path_factory.mktemp("front") / "site")
    for name in ("n01", "n02"):
        fleet.add(name)
    return fleet


def test_a_deploy_says_where_to_send_a_request_and_nothing_of_pyinfras(fleet: Fleet) -> None:
    code, out, err = run(fleet, "deploy", "n01")
    assert code == 0, err
    assert "http://127.0.0.1:8000/v1" in out
    assert 'b200 ask n01 "Say hello."' in out
    assert "n02" not in out
    lines = err.splitlines()
    assert lines, "no line of progress"
    assert [line for line in lines if not line.startswith("n01  ")] == []


def test_pyinfras_own_words_come_on_request(fleet: Fleet) -> None:
    code, _, err = run(fleet, "deploy", "n01", "-v")
    assert (code, "Starting operation" in err) == (0, True)


def test_the_exit_code_is_that_of_the_run(fleet: Fleet) -> None:
    machine = fleet.machine("n01")
    machine.hardware = states.recorded("gpu2-no-nvlink")
    machine.save()
    code, out, _ = run(fleet, "check", "n01")
    assert (code, "exit 1" in out) == (1, True)
    assert "b200 explain nvlink.links" in out


def test_the_result_of_a_run_as_json_is_one_document(fleet: Fleet) -> None:
    code, out, _ = run(fleet, "check", "n02", "--json")
    record = json.loads(out)
    assert (code, {*record["hosts"]}) == (exit_code(record), {"n02"})
    assert Path(record["report"]).name == "report.html"


@pytest.mark.parametrize("broken", ["x = y\n", "nodes = ['n01'\n"], ids=["name", "syntax"])
def test_an_inventory_that_does_not_load_is_one_line(tmp_path: Path, broken: str) -> None:
    fleet = Fleet(tmp_path / "site")
    fleet.add("n01")
    fleet.preamble = broken
    code, out, err = run(fleet, "ready")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "site.py" in err


def test_ctrl_c_ends_the_run_and_its_front(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "site")
    fleet.add("n01")
    process = begin(fleet, "deploy")
    assert process.stderr
    process.stderr.readline()
    os.killpg(process.pid, signal.SIGINT)
    began = time.monotonic()
    out, _ = process.communicate(timeout=300)
    assert process.returncode not in (0, -signal.SIGINT), time.monotonic() - began
    assert "interrupted" in out
