"""`node.pyz power-limit` on the stand-in: all GPUs or none, kept for later processes, once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.lab.shim_kit import ask, facts, start, write_conf

pytestmark = pytest.mark.process

LIMITS = "[n.nvmlDeviceGetPowerManagementLimit(handle(i)) // 1000 for i in range(8)]"
ENFORCED = "[n.nvmlDeviceGetEnforcedPowerLimit(handle(i)) // 1000 for i in range(8)]"


class Node:
    """A simulated node, whose GPUs are asked by processes of their own."""

    def __init__(self, library: Path, folder: Path, **changes: str) -> None:
        self.library = library
        self.conf = write_conf(folder / "conf", facts() | changes)
        self.kept = Path(f"{self.conf}.kept")

    def set(self, *words: str) -> subprocess.CompletedProcess[str]:
        """What the node program says."""
        return start(self.library, self.conf, "-m", "b200kit.node", "power-limit", *words)

    @property
    def limits(self) -> list[list[int]]:
        """The limits asked for and in force, in W, as a later process finds them."""
        return ask(self.library, self.conf, LIMITS, ENFORCED)[1:]


@pytest.fixture
def node(library: Path, tmp_path: Path) -> Node:
    """A healthy one."""
    return Node(library, tmp_path)


def all_at(watts: int) -> list[list[int]]:
    """The limits where every GPU has one."""
    return [[watts] * 8] * 2


def test_limit_is_set_on_every_gpu_and_the_second_time_on_none(node: Node) -> None:
    assert node.limits == all_at(1000)
    first = node.set("700")
    assert (first.returncode, first.stdout.count(", set\n")) == (0, 8), first.stderr
    assert node.limits == all_at(700)
    before = node.kept.read_text()
    again = node.set("700")
    assert (again.returncode, again.stdout.count("as it was")) == (0, 8)
    assert node.kept.read_text() == before


@in_subtests("watts", ["199", "1001", "0"], ids=str)
def test_value_that_no_gpu_takes_changes_nothing(node: Node, watts: str) -> None:
    done = node.set(watts)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 8
    assert_message(done.stderr.splitlines()[0])
    assert node.limits == all_at(1000)
    assert not node.kept.exists()


def test_value_that_the_last_gpu_alone_does_not_take_changes_none(
    library: Path, tmp_path: Path
) -> None:
    node = Node(library, tmp_path, **{"gpu.7.power.min_mw": "800000"})
    done = node.set("700")
    assert done.returncode == 1
    assert_message(done.stderr)
    assert node.limits == all_at(1000)


def test_gpu_that_refuses_is_named_and_the_others_are_set(library: Path, tmp_path: Path) -> None:
    refuse = {"gpu.3.refuse.nvmlDeviceSetPowerManagementLimit": "3"}
    node = Node(library, tmp_path, **refuse)
    done = node.set("700")
    assert done.returncode == 1
    assert_message(done.stderr)
    assert node.limits[0] == [700, 700, 700, 1000, 700, 700, 700, 700]


def test_node_without_gpus_is_a_failure(library: Path, tmp_path: Path) -> None:
    done = Node(library, tmp_path, **{"gpu.count": "0"}).set("700")
    assert done.returncode == 1
    assert_message(done.stderr)


def test_without_a_driver_it_fails_in_one_line(library: Path, tmp_path: Path) -> None:
    done = start(library, tmp_path / "none", "-m", "b200kit.node", "power-limit", "700")
    assert done.returncode == 1
    assert_message(done.stderr)


@in_subtests("word", ["", "-1", "700W", "7e2", "\u0667"])
def test_what_is_no_number_of_watts_is_refused(node: Node, word: str) -> None:
    assert node.set("--", word).returncode == 2
    assert node.limits == all_at(1000)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_stand_in_lets_only_an_administrator_set_it(node: Node) -> None:
    """As the driver does."""
    call = "n.nvmlDeviceSetPowerManagementLimit(handle(0), 700000)"
    assert ask(node.library, node.conf, f"(__import__('os').seteuid(65534), {call})[1]")[1] == (
        "error 4"
    )
