"""The controller is killed in one stage after another; the next run finishes the node.

CI kills it where work is under way on the node; before and between that, nothing is half done, so
the other stages wait for the night.
"""

from __future__ import annotations

import re
import signal

import pytest

from tests.e2e.conftest import Boot
from tests.e2e.driving import Outcome, deploy, on
from tests.e2e.tools.killing import STAGES, kill_in, leftovers

NODE = "b200-1"
# In the driver's the golden path kills it.
AT_WORK = ("Host", "Weights", "Reboot", "Containers", "Serving", "Warm-up", "Gateway", "Smoke")
OTHERS = tuple(stage for stage in STAGES if stage not in AT_WORK)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(AT_WORK, id="at work"),
        pytest.param(OTHERS, id="others", marks=pytest.mark.long),
    ],
)
def killed(request: pytest.FixtureRequest, boot: Boot) -> dict[str, int]:
    """A fresh node, and how the runs over it ended, by the stage in which each was killed."""
    boot("healthy")
    on(NODE, "journalctl --flush")
    return {stage: kill_in(stage, NODE) for stage in request.param}


@pytest.fixture(scope="module")
def finished(killed: dict[str, int]) -> Outcome:
    """The run that was allowed to end."""
    return deploy()


def test_every_run_was_killed(killed: dict[str, int]) -> None:
    assert killed == dict.fromkeys(killed, -signal.SIGKILL)


def test_the_next_run_finishes_the_node(finished: Outcome) -> None:
    assert finished.code == 0, finished.said[-3000:]
    assert finished.outcome(NODE) == "live"


def test_and_the_run_after_it_changes_nothing(finished: Outcome) -> None:
    again = deploy()
    assert (again.code, again.host(NODE)["changes"]) == (0, 0)


def test_the_driver_was_installed_once(finished: Outcome) -> None:
    log = on(NODE, "cat /var/log/dpkg.log")
    assert len(re.findall(r" install nvidia-open:\S+ <none> 580\.126\.20-1", log)) == 1
    assert " upgrade nvidia-open" not in log


def test_the_node_was_rebooted_once(finished: Outcome) -> None:
    boots = on(NODE, "journalctl --list-boots --no-pager -q").splitlines()
    assert len(boots) == 2, boots


def test_nothing_half_done_is_left(finished: Outcome) -> None:
    assert leftovers(NODE) == ""


def test_each_replica_runs_once(finished: Outcome) -> None:
    # By the API server alone: its core and worker have names of their own.
    assert on(NODE, "pgrep -cx vllm") == "2"
