"""The exit code of check.py, from the real CLI: 0 fit, 1 unfit or worse, 2 only not measured."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fake.fleet import Fleet, Outcome
from tests.fake.machine import State
from tests.unit import states


def fit() -> State:
    """The hardware of a sound node."""
    return states.healthy()


def unfit() -> State:
    """The hardware of a node whose GPU 2 has no NVLink."""
    return states.recorded("gpu2-no-nvlink")


def unmeasured() -> State:
    """The hardware of a node whose P2P writes could not be asked for."""
    state = states.healthy()
    state["p2p"]["write"] = {"unmeasured": "timed out after 5 s"}
    return state


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Sound nodes, deployed; no test changes them."""
    fleet = Fleet(tmp_path_factory.mktemp("check") / "site")
    for name in ("n01", "n02"):
        fleet.add(name)
    assert fleet.run("b200.py").code == 0
    return fleet


@pytest.fixture(scope="module")
def fleet(sound: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """The same; what each test needs of them goes bad afterwards."""
    return sound.copy(tmp_path_factory.mktemp("copy") / "site", *sound.names)


def check(fleet: Fleet, *hardware: State) -> Outcome:
    """Run check.py over nodes of this hardware; it may look at them, and nothing else."""
    fleet.names = [f"n0{n + 1}" for n in range(len(hardware))]
    for name, state in zip(fleet.names, hardware, strict=True):
        machine = fleet.machine(name)
        machine.hardware = state
        machine.log.clear()
        machine.save()
    run = fleet.run("check.py")
    assert all({*fleet.machine(name).log} <= {"node.pyz observe"} for name in fleet.names)
    return run


def test_check_of_fit_nodes_exits_zero(fleet: Fleet) -> None:
    run = check(fleet, fit(), fit())
    assert (run.code, set(run.outcomes.values())) == (0, {"fit"}), run.stdout
    assert "exit 0" in run.stdout


def test_check_with_an_unfit_node_exits_one_and_prints_the_matrix_of_that_node_alone(
    fleet: Fleet,
) -> None:
    run = check(fleet, fit(), unfit())
    assert (run.code, run.outcomes) == (1, {"n01": "fit", "n02": "unfit"})
    rows = [line for line in run.stdout.splitlines() if line.startswith("  > GPU2")]
    assert rows
    assert rows[0].count("NV0!") == 7
    assert run.stdout.count("GPU0  GPU1  GPU2") == 1


def test_check_with_nothing_worse_than_not_measured_exits_two(fleet: Fleet) -> None:
    run = check(fleet, unmeasured(), fit())
    assert (run.code, run.outcomes["n01"]) == (2, "unmeasured"), run.stdout
    assert "exit 2" in run.stdout
    assert '"exit_code": 2' in run.report


@pytest.mark.parametrize(("hardware", "code"), [(fit, 0), (unmeasured, 2)])
def test_reader_that_leaves_changes_neither_outcome_nor_exit_code(
    fleet: Fleet, hardware: Callable[[], State], code: int
) -> None:
    machine = fleet.machine("n01")
    machine.hardware = hardware()
    machine.save()
    fleet.names = ["n01"]
    process = fleet.begin("check.py")
    assert process.stdout
    assert process.stderr
    process.stderr.readline()
    process.stdout.close()
    process.stderr.close()
    assert process.wait(300) == code
    [folder] = (fleet.folder / "reports").glob(f"*-{process.pid}")
    summary = json.loads((folder / "summary.json").read_text())
    shutil.rmtree(folder)
    assert summary["exit_code"] == code
    assert summary["hosts"]["n01"]["cause"] is None or "internal" not in str(summary["hosts"])


REPLICAS = ("vllm@0.service", "vllm@1.service")


@pytest.fixture
def deployed(sound: Fleet, tmp_path: Path) -> Fleet:
    """One node that serves, in a fleet of its own."""
    return sound.copy(tmp_path / "site", "n01")


def check_with(fleet: Fleet, units: tuple[str, ...], **reading: Any) -> Outcome:
    """What check.py says once systemd says this of some units."""
    machine = fleet.machine("n01")
    for unit in units:
        machine.units[unit] |= reading
    machine.save()
    return fleet.run("check.py")


def test_sound_node_of_which_one_part_was_stopped_is_unfit(deployed: Fleet) -> None:
    run = check_with(deployed, REPLICAS[1:], active="inactive", result="success")
    assert (run.code, run.outcomes) == (1, {"n01": "unfit"}), run.stdout
    assert "vllm@1.service does not serve" in run.stdout


def test_node_that_is_starting_is_not_fit_yet_and_says_so(deployed: Fleet) -> None:
    run = check_with(deployed, REPLICAS, active="activating", sub="start-post")
    assert (run.code, run.outcomes) == (2, {"n01": "unmeasured"}), run.stdout
    assert "vllm@0.service is starting" in run.stdout


@pytest.mark.process
def test_deploy_brings_back_what_was_dead(deployed: Fleet) -> None:
    check_with(deployed, REPLICAS, active="failed", result="start-limit-hit")
    assert deployed.run("b200.py").outcomes == {"n01": "live"}
    assert deployed.run("check.py").code == 0


def test_refused_inventory_exits_one_and_leaves_no_report(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "site")
    fleet.add("n01", unmeasured())
    data = fleet.folder / "group_data" / "nodes.py"
    data.write_text(data.read_text() + "drivr = 'x'\n")
    run = fleet.run("check.py")
    assert (run.code, run.hosts) == (1, {})
    assert "drivr" in run.stdout + run.stderr
