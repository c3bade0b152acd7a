"""The recipe: its order, its refusals, and that one act never resets the GPUs twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from b200kit.node.facts.xid import RESET_DONE
from b200kit.node.maintenance import reset_gpus
from b200kit.node.maintenance.reset_gpus import (
    CDI,
    DCGM,
    MANAGER,
    PERSISTENCED,
    ResetRecipe,
    ResetRefused,
)
from tests.messages import PYTHON, assert_message, raises_message

DAEMONS = (*CDI, DCGM, PERSISTENCED, MANAGER)


class Node:
    """Answers the recipe's commands, and keeps them."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.fails: dict[str, str] = {}
        self.absent: tuple[str, ...] = ()

    def run(self, *argv: str, timeout: float = 0) -> subprocess.CompletedProcess[bytes]:
        """One command."""
        del timeout
        line = " ".join(argv)
        if argv[:2] in (("systemctl", "is-active"), ("systemctl", "is-enabled")):
            return subprocess.CompletedProcess(argv, int(argv[-1] in self.absent), b"", b"")
        self.log.append(line)
        said = next((why for start, why in self.fails.items() if line.startswith(start)), None)
        return subprocess.CompletedProcess(
            argv, 0 if said is None else 1, b"", (said or "").encode()
        )

    @property
    def steps(self) -> list[str]:
        """What was done, without the way to it."""
        return [line for line in self.log if "reset-failed" not in line]


@pytest.fixture
def node() -> Node:
    """A node whose daemons all run."""
    return Node()


@pytest.fixture
def recipe(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ResetRecipe:
    """One act on it; nobody holds a GPU."""
    monkeypatch.setattr(reset_gpus, "SETTLE_S", 0.0)
    for name in ("notes", "proc", "modules"):
        (tmp_path / name).mkdir()
    return again(node, tmp_path)


def again(node: Node, folder: Path) -> ResetRecipe:
    """The same act in another process."""
    notes, proc, modules, kmsg = (folder / name for name in ("notes", "proc", "modules", "kmsg"))
    return ResetRecipe("a1", node.run, notes, proc, modules, kmsg)


def fabric() -> str:
    """It came up."""
    return "the fabric is up"


def test_order_is_the_one_of_production(node: Node, recipe: ResetRecipe) -> None:
    said = recipe.through(True, fabric)
    assert_message(said)
    assert node.steps == [
        *(f"systemctl stop {unit}" for unit in (*CDI, DCGM, PERSISTENCED, MANAGER)),
        "nvidia-smi -r",
        *(f"systemctl start {unit}" for unit in (MANAGER, PERSISTENCED, DCGM, CDI[1], CDI[0])),
    ]


def test_a_reset_that_succeeded_is_in_the_kernel_log(node: Node, recipe: ResetRecipe) -> None:
    node.fails["nvidia-smi"] = "In use by another client"
    with pytest.raises(ResetRefused):
        recipe.through(True, fabric)
    assert not recipe.kernel_log.exists()
    node.fails.clear()
    recipe.through(True, fabric)
    assert recipe.kernel_log.read_text() == f"{RESET_DONE}\n"


def test_restart_of_a_fabric_manager_is_the_same_with_the_reset(
    node: Node, recipe: ResetRecipe
) -> None:
    assert "all GPUs reset" in recipe.through(False, fabric)
    stop, start = (node.steps.index(f"systemctl {verb} {MANAGER}") for verb in ("stop", "start"))
    assert stop < node.steps.index("nvidia-smi -r") < start


def test_restart_of_other_daemons_resets_nothing(node: Node, recipe: ResetRecipe) -> None:
    node.absent = (MANAGER,)
    assert_message(recipe.through(False, fabric))
    assert not any("nvidia-smi" in line for line in node.log)


@pytest.mark.parametrize("reset", [True, False])
def test_fabric_manager_is_not_touched_beside_what_computes(
    node: Node, recipe: ResetRecipe, monkeypatch: pytest.MonkeyPatch, reset: bool
) -> None:
    held = ["pid 7 nv-fabricmanager of nvidia-fabricmanager.service"]
    monkeypatch.setattr(reset_gpus, "holders", lambda proc: iter(held))
    engine = "pid 8 VLLM::Worker of vllm@0.service"
    held.append(engine)
    with pytest.raises(ResetRefused, match="VLLM::Worker"):
        recipe.through(reset, fabric)
    assert f"systemctl stop {MANAGER}" not in node.steps
    held.remove(engine)
    assert "all GPUs reset" in again(node, recipe.notes.parent).through(reset, fabric)


def test_daemons_that_a_node_has_not_are_left_alone(node: Node, recipe: ResetRecipe) -> None:
    node.absent = (DCGM, *CDI)
    recipe.through(True, fabric)
    assert not any(unit in line for unit in node.absent for line in node.steps)


def test_display_module_goes_where_it_is_loaded(node: Node, recipe: ResetRecipe) -> None:
    (recipe.modules / "nvidia_drm").mkdir()
    recipe.through(True, fabric)
    at = node.steps.index("modprobe -r nvidia_drm")
    assert node.steps[at + 1 : at + 3] == [f"systemctl stop {MANAGER}", "nvidia-smi -r"]


def test_display_module_in_use_refuses_and_what_was_stopped_runs_again(
    node: Node, recipe: ResetRecipe
) -> None:
    (recipe.modules / "nvidia_drm").mkdir()
    node.fails = {"modprobe": "modprobe: FATAL: Module nvidia_drm is in use."}
    with raises_message(ResetRefused):
        recipe.through(True, fabric)
    assert node.steps[-5:] == [f"systemctl start {unit}" for unit in reset_gpus.START]


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[int]:
    """A process that is really there."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process.pid
    process.kill()
    process.wait()


@pytest.mark.parametrize("device", ["/dev/nvidia3", "/dev/nvidiactl", "/dev/nvidia-uvm"])
def test_process_that_has_a_device_open_is_named(
    node: Node, recipe: ResetRecipe, sleeper: int, device: str
) -> None:
    descriptors = recipe.proc / str(sleeper) / "fd"
    descriptors.mkdir(parents=True)
    (descriptors / "7").symlink_to(device)
    with raises_message(ResetRefused, PID=f"pid {sleeper}", PYTHON=PYTHON):
        recipe.through(True, fabric)
    assert not any("nvidia-smi" in line for line in node.log)
    assert node.steps[-1] == f"systemctl start {CDI[0]}"


def test_other_files_are_no_devices(node: Node, recipe: ResetRecipe, sleeper: int) -> None:
    descriptors = recipe.proc / str(sleeper) / "fd"
    descriptors.mkdir(parents=True)
    for number, target in enumerate(("/dev/null", "/usr/share/nvidia/x", "socket:[7]")):
        (descriptors / str(number)).symlink_to(target)
    recipe.through(True, fabric)
    assert "nvidia-smi -r" in node.steps


def test_refused_reset_may_be_tried_again_under_the_same_id(
    node: Node, recipe: ResetRecipe
) -> None:
    node.fails = {"nvidia-smi": "Please first kill all processes using these devices"}
    with raises_message(ResetRefused):
        recipe.through(True, fabric)
    node.fails = {}
    assert "all GPUs reset" in again(node, recipe.notes.parent).through(True, fabric)


def test_act_that_came_to_its_end_is_not_done_again(node: Node, recipe: ResetRecipe) -> None:
    said = recipe.through(True, fabric)
    node.log.clear()
    assert again(node, recipe.notes.parent).through(True, fabric) == said
    assert node.log == []


@pytest.mark.parametrize("step", ["resetting", "reset"])
def test_act_that_was_broken_off_goes_on_and_resets_no_second_time(
    node: Node, recipe: ResetRecipe, step: str
) -> None:
    recipe.keep(step, units=[MANAGER])
    text = again(node, recipe.notes.parent).through(True, fabric)
    assert "nvidia-smi -r" not in node.steps
    assert node.steps[-1] == f"systemctl start {MANAGER}"
    assert_message(text)


def test_units_that_were_stopped_before_a_crash_are_started_after_it(
    node: Node, recipe: ResetRecipe
) -> None:
    recipe.keep("begun", units=list(DAEMONS))
    node.absent = DAEMONS
    again(node, recipe.notes.parent).through(True, fabric)
    assert sum(line.startswith("systemctl start") for line in node.steps) == 5


def test_daemon_that_does_not_start_is_said_when_the_others_were_tried(
    node: Node, recipe: ResetRecipe
) -> None:
    node.fails = {f"systemctl start {MANAGER}": "Job for it failed."}
    with raises_message(ResetRefused):
        recipe.through(True, fabric)
    assert node.steps[-1] == f"systemctl start {CDI[0]}"
    assert json.loads(recipe.path.read_text())["step"] == "reset"


def test_daemon_that_does_not_stop_ends_it_before_the_reset(
    node: Node, recipe: ResetRecipe
) -> None:
    node.fails = {f"systemctl stop {PERSISTENCED}": "timed out"}
    with raises_message(ResetRefused):
        recipe.through(True, fabric)
    assert "nvidia-smi -r" not in node.steps
    assert node.steps[-1] == f"systemctl start {CDI[0]}"


@pytest.mark.parametrize("act", ["", "../x", "a b", "x" * 200])
def test_act_ids_name_files_and_nothing_else(act: str) -> None:
    with pytest.raises(SystemExit):
        reset_gpus.main(["show", "--act", act])


def test_program_that_is_not_there_or_takes_too_long_is_one_that_failed() -> None:
    assert reset_gpus.execute("/nowhere/nvidia-smi").returncode == 124
    assert reset_gpus.execute("sleep", "60", timeout=0.05).returncode == 124
