"""`b200 watch` over machines in memory: exit codes, refusals, a bad node beside sound ones."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.lib import timestamp
from b200kit.run.places import SITE
from tests.fake.fleet import Fleet
from tests.interrupts import heed_interrupts
from tests.unit.report import fleets, records
from tests.unit.report.pages import write
from tests.unit.report.test_hostile_text import HOSTILE

_ANSWERS = r"^node\.pyz standing"


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """Three nodes that serve under valid proofs, of a site of their own."""
    found = Fleet(tmp_path / "site")
    monkeypatch.setenv(SITE, str(found.folder))
    for name in ("n01", "n02", "n03"):
        found.add(name)
        says(found, name, json.dumps(now(name)))
    return found


def now(name: str, **changed: Any) -> dict[str, Any]:
    """A sound node's answer, at this moment."""
    return fleets.standing(name, **{"at": timestamp.now()} | changed)


def says(fleet: Fleet, name: str, text: str, ok: bool = True) -> None:
    """Let a machine answer so."""
    machine = fleet.machine(name)
    machine.answers = {_ANSWERS: (ok, text)}
    machine.save()


def begin(fleet: Fleet, *words: str) -> subprocess.Popen[str]:
    """`b200 watch` over the fleet."""
    _, options = fleet.command("check.py")
    pipe = subprocess.PIPE
    line = [
        sys.executable,
        "-m",
        "b200kit.cli",
        "watch",
        "-i",
        str(fleet.folder / "site.py"),
        *words,
    ]
    options |= {"stdout": pipe, "stderr": pipe, "preexec_fn": heed_interrupts}
    return subprocess.Popen(line, text=True, **options)


def once(fleet: Fleet, *words: str) -> tuple[int, str, str]:
    """Exit code and what is printed of one look."""
    process = begin(fleet, "--once", *words)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def test_each_node_is_asked_by_one_command_and_a_sound_fleet_exits_0(fleet: Fleet) -> None:
    code, out, err = once(fleet)
    assert (code, err) == (0, ""), out + err
    assert out.startswith("3 nodes  24 GPUs  proof freshness 100 % (24 of 24 GPUs)  serving 3")
    for name in fleet.names:
        assert len(fleet.machine(name).log) == 1


@pytest.mark.process
def test_a_node_that_is_away_hangs_or_says_what_it_likes_costs_the_others_nothing(
    fleet: Fleet, tmp_path: Path
) -> None:
    off = fleet.machine("n01")
    off.reachable = False
    off.save()
    says(fleet, "n02", HOSTILE)
    code, out, err = once(fleet, "--page", str(tmp_path / "page.html"))
    assert (code, err) == (2, "")
    lines = out.splitlines()
    assert all(line.isprintable() for line in lines)
    assert [line.split("since")[0] for line in lines if "NOT READ" in line] == [
        "n01  NOT READ  ", "n02  NOT READ  ",
    ]  # fmt: skip
    assert any(line.startswith("1 node  serving") for line in lines)
    assert "n03" in (tmp_path / "page.html").read_text()
    write({**records.record(n03=records.red()), "run": "20261120-010101"}, fleet.folder / "reports")
    code, out, err = once(fleet, "--page", str(tmp_path / "page.html"))
    assert (code, err) == (1, "")
    assert [line.split()[0] for line in out.splitlines() if "  RED  " in line] == ["n03"]
    assert "RED" in (tmp_path / "page.html").read_text()


@pytest.mark.process
@pytest.mark.parametrize("wrong", ["drivr", "nodes"])
def test_an_inventory_with_a_mistake_is_refused_and_no_node_is_asked(
    fleet: Fleet, wrong: str
) -> None:
    site = fleet.folder / "group_data" / "nodes.py"
    site.write_text(site.read_text() + "drivr = 1\n" * (wrong == "drivr"))
    if wrong == "nodes":
        fleet.names.clear()
    code, _, err = once(fleet)
    assert code == 2
    assert wrong == "nodes" or "drivr" in err
    assert err.splitlines()[-1].startswith("b200 watch: ")
    assert "Traceback" not in err
    assert not fleet.names or not fleet.machine("n01").log


@pytest.mark.process
def test_it_is_renewed_until_ctrl_c_which_leaves_at_once(fleet: Fleet, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    with begin(fleet, "--every", "1", "--page", str(page)) as process:
        try:
            until(lambda: page.exists() and "n[01-03]" in page.read_text())
            says(fleet, "n03", json.dumps(now("n03", proof=None)))
            until(lambda: "NOT PROVEN" in page.read_text())
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=300)
        finally:
            process.kill()
    assert (process.returncode, err) == (130, "b200 watch: interrupted\n")
    assert "\x1b" not in out
    assert out.count("as read at") > 1


@pytest.mark.process
def test_a_node_that_hangs_holds_no_other(fleet: Fleet, tmp_path: Path) -> None:
    hung, page = fleet.machine("n01"), tmp_path / "page.html"
    hung.hangs_at = _ANSWERS
    hung.save()
    with begin(fleet, "--every", "1", "--page", str(page)) as process:
        try:
            until(lambda: page.exists() and "n[02-03]" in page.read_text())
            asked = len(fleet.machine("n02").log)
            until(lambda: len(fleet.machine("n02").log) > asked + 2)
            assert "NOT READ" in page.read_text()
        finally:
            process.kill()


@pytest.mark.process
def test_it_leaves_no_process_behind_when_it_is_killed(fleet: Fleet) -> None:
    with begin(fleet, "--every", "3600") as process:
        assert process.stdout
        process.stdout.readline()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
    assert children
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))


def until(there: Callable[[], bool]) -> None:
    """Wait for it, for a machine that is busy otherwise."""
    end = time.monotonic() + 300
    while not there():
        assert time.monotonic() < end
        time.sleep(0.05)
