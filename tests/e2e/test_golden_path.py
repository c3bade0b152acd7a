"""The one way through the lab that `make test` takes, over two nodes in three runs.

A run is killed while it installs the driver; the next one brings the sound node from there to
live and refuses the sick one at the gate; the one after it changes nothing.
"""

from __future__ import annotations

import re
import signal
from typing import Any

import pytest

import tests.lab as lab
from tests.e2e.conftest import SHORT_SMOKE, Boot
from tests.e2e.driving import Outcome, cursor, deploy, ever_started, on, remote_commands
from tests.e2e.killing import kill_in, leftovers
from tests.lab.paths import lab_paths

pytestmark = pytest.mark.golden
SOUND, SICK = "b200-1", "b200-2"
# One observation, and the lock given back.
FEWEST = 2
ASK = """
import json, sys, urllib.error, urllib.request
body = {"model": "tiny-llama", "max_tokens": 4, "messages": [{"role": "user", "content": "hello"}]}
fields = {"Authorization": f"Bearer {sys.argv[1]}", "Content-Type": "application/json"}
asked = urllib.request.Request(
    "http://127.0.0.1:8000/v1/chat/completions", json.dumps(body).encode(), fields
)
try:
    answer = json.load(urllib.request.urlopen(asked, timeout=60))
    print(answer["usage"]["completion_tokens"])
except urllib.error.HTTPError as refused:
    print(refused.code)
"""


@pytest.fixture(scope="module")
def killed(boot: Boot) -> int:
    """Two bare nodes, and how a run ended that was killed while it installed the driver."""
    boot("healthy", "gpu2-no-nvlink")
    for name in (SOUND, SICK):
        on(name, "journalctl --flush")
    return kill_in("Driver", SOUND, *SHORT_SMOKE)


@pytest.fixture(scope="module")
def first(killed: int) -> Outcome:
    """The run that was allowed to end."""
    return deploy("b200.py", *SHORT_SMOKE)


def findings(outcome: Outcome, name: str) -> list[dict[str, Any]]:
    """What keeps a node from going live."""
    return [f for f in outcome.host(name)["verdict"]["findings"] if f["status"] == "fail"]


def test_killed_run_is_finished_by_the_next_one(killed: int, first: Outcome) -> None:
    assert killed == -signal.SIGKILL
    assert first.outcome(SOUND) == "live", first.told(SOUND)
    assert leftovers(SOUND) == ""


def test_driver_was_installed_and_the_node_rebooted_once(first: Outcome) -> None:
    for name in (SOUND, SICK):
        log = on(name, "cat /var/log/dpkg.log")
        assert len(re.findall(r" install nvidia-open:\S+ <none> 580\.126\.20-1", log)) == 1
        assert on(name, "cat /var/lib/b200-lab/boots") == "2"


def test_sick_node_is_refused_at_the_gate_by_its_gpu(first: Outcome) -> None:
    assert first.code == 1
    assert (first.outcome(SICK), first.host(SICK)["stage"]) == ("red", "gate"), first.told(SICK)
    assert {finding["subject"] for finding in findings(first, SICK)} == {"GPU 2"}
    assert "nvlink.links" in {finding["check"] for finding in findings(first, SICK)}
    assert first.directory is not None
    assert (first.directory / "failed.txt").read_text().split() == [SICK]


def test_sick_node_never_served(first: Outcome) -> None:
    assert first.code == 1
    assert not ever_started(SICK, "vllm@0.service")
    assert on(SICK, "ls /etc/systemd/system/vllm@.service 2>/dev/null") == ""
    assert on(SICK, "ss -ltnH 'sport = :8000'") == ""


def test_sound_node_answers_whoever_has_the_key_and_nobody_else(first: Outcome) -> None:
    key = lab_paths().api_key.read_text().strip()
    assert first.host(SOUND)["smoke"]["verdict"] == "pass"
    assert lab.run(SOUND, ["python3", "-c", ASK, key]).stdout.strip() == "4"
    assert lab.run(SOUND, ["python3", "-c", ASK, "another"]).stdout.strip() == "401"


def test_node_judges_itself_at_boot_as_the_run_did(first: Outcome) -> None:
    assert first.code == 1
    assert on(SOUND, "systemctl is-active b200-gate.service") == "active"
    assert lab.run(SICK, ["systemctl", "start", "b200-gate.service"]).returncode != 0


def test_second_run_changes_nothing_in_two_commands(first: Outcome) -> None:
    before = cursor(SOUND)
    again = deploy("b200.py", "--limit", SOUND, *SHORT_SMOKE)
    assert again.code == 0, again.said[-3000:]
    assert again.host(SOUND)["changes"] == 0, again.host(SOUND)["stages"]
    assert remote_commands(SOUND, before) == again.host(SOUND)["commands"] == FEWEST
