"""The controller is killed in every stage, one after another; the next run finishes the node.

On two nodes side by side, each by runs of its own: every other stage is killed on each. In CI the
golden path and test_settings.py kill it where it is at work.
"""

from __future__ import annotations

import re
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.conftest import Boot
from tests.e2e.driving import Outcome, deploy, on
from tests.e2e.tools.killing import STAGES, kill_in, leftovers

pytestmark = pytest.mark.long

KILLED = {"b200-1": STAGES[::2], "b200-2": STAGES[1::2]}
"""Node to the stages in which its runs are killed."""


def kill_all(name: str) -> dict[str, int]:
    """How the runs over one node ended, by the stage in which each was killed."""
    return {stage: kill_in(stage, name, "--limit", name) for stage in KILLED[name]}


@pytest.fixture(scope="module")
def killed(boot: Boot) -> dict[str, int]:
    """Two fresh nodes, and a killed run for each stage."""
    boot(*["healthy"] * len(KILLED))
    for name in KILLED:
        on(name, "journalctl --flush")
    with ThreadPoolExecutor(len(KILLED)) as pool:
        return {
            stage: code for found in pool.map(kill_all, KILLED) for stage, code in found.items()
        }


@pytest.fixture(scope="module")
def finished(killed: dict[str, int]) -> Outcome:
    """The run that was allowed to end."""
    return deploy()


def test_every_run_was_killed(killed: dict[str, int]) -> None:
    assert killed == dict.fromkeys(STAGES, -signal.SIGKILL)


def test_the_next_run_finishes_the_nodes(finished: Outcome) -> None:
    assert finished.code == 0, finished.said[-3000:]
    assert {name: finished.outcome(name) for name in KILLED} == dict.fromkeys(KILLED, "live")


def test_and_the_run_after_it_changes_nothing(finished: Outcome) -> None:
    again = deploy()
    assert again.code == 0
    assert {name: again.host(name)["changes"] for name in KILLED} == dict.fromkeys(KILLED, 0)


@pytest.mark.parametrize("name", KILLED)
def test_the_driver_was_installed_once(finished: Outcome, name: str) -> None:
    log = on(name, "cat /var/log/dpkg.log")
    assert len(re.findall(r" install nvidia-open:\S+ <none> 580\.126\.20-1", log)) == 1
    assert " upgrade nvidia-open" not in log


@pytest.mark.parametrize("name", KILLED)
def test_the_node_was_rebooted_once(finished: Outcome, name: str) -> None:
    boots = on(name, "journalctl --list-boots --no-pager -q").splitlines()
    assert len(boots) == 2, boots


@pytest.mark.parametrize("name", KILLED)
def test_nothing_half_done_is_left(finished: Outcome, name: str) -> None:
    assert leftovers(name) == ""


@pytest.mark.parametrize("name", KILLED)
def test_each_replica_runs_once(finished: Outcome, name: str) -> None:
    # By the API server alone: its core and worker have names of their own.
    assert on(name, "pgrep -cx vllm") == "2"
