"""The one way through the lab that CI takes first, over two nodes in three runs.

A run is killed while it installs the driver; the next one, which prints all that pyinfra can print,
brings the sound node from there to live and refuses the sick one at the gate; the one after it
changes nothing. Its secrets are then nowhere but in files that only root can read.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tests.lab as lab
from tests.e2e.conftest import Boot
from tests.e2e.driving import ROOT, Outcome, cursor, deploy, ever_started, on, remote_commands
from tests.e2e.tools import hardened
from tests.e2e.tools.killing import kill_in, leftovers
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
    return kill_in("Driver", SOUND)


@pytest.fixture(scope="module")
def first(killed: int) -> Outcome:
    """The run that was allowed to end."""
    return deploy("b200.py", "-vvv", "--debug", "--diff")


@pytest.fixture(scope="module", params=["token", "api_key"])
def canary(request: pytest.FixtureRequest) -> str:
    """The value of a secret of this lab."""
    secret: str = getattr(lab_paths(), request.param).read_text().strip()
    assert len(secret) > 20
    return secret


def findings(outcome: Outcome, name: str) -> list[dict[str, Any]]:
    """What keeps a node from going live."""
    return [f for f in outcome.host(name)["verdict"]["findings"] if f["status"] == "fail"]


def test_killed_run_is_finished_by_the_next_one(killed: int, first: Outcome) -> None:
    assert killed == -signal.SIGKILL
    assert first.outcome(SOUND) == "live", first.described(SOUND)
    assert leftovers(SOUND) == ""


def test_driver_was_installed_and_the_node_rebooted_once(first: Outcome) -> None:
    for name in (SOUND, SICK):
        log = on(name, "cat /var/log/dpkg.log")
        assert len(re.findall(r" install nvidia-open:\S+ <none> 580\.126\.20-1", log)) == 1
        assert on(name, "cat /var/lib/b200-lab/boots") == "2"


def test_sick_node_is_refused_at_the_gate_by_its_gpu(first: Outcome) -> None:
    assert first.code == 1
    assert (first.outcome(SICK), first.host(SICK)["stage"]) == ("red", "gate"), first.described(
        SICK
    )
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


@pytest.mark.parametrize("name", [SOUND, SICK])
def test_judge_over_the_recorded_state_agrees_with_the_run(
    first: Outcome, name: str, tmp_path: Path
) -> None:
    record = first.host(name)
    state, expectation = tmp_path / "state.json", tmp_path / "expect.json"
    state.write_text(json.dumps(record["state"]))
    expectation.write_text(json.dumps(record["expectation"]))
    judged = subprocess.run(
        [Path(sys.executable).with_name("b200"), "judge", state, "--expect", expectation, "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert judged.returncode == {SOUND: 0, SICK: 1}[name], judged.stderr
    assert record["verdict"]["fit"] == {SOUND: "fit", SICK: "unfit"}[name]


def test_secret_is_in_nothing_that_the_run_printed_or_kept(first: Outcome, canary: str) -> None:
    assert canary not in first.said
    assert first.directory is not None
    files = [path for path in first.directory.rglob("*") if path.is_file()]
    assert files
    assert not [path.name for path in files if canary in path.read_text(errors="replace")]


def test_secret_is_in_no_unit_no_argument_list_and_no_journal(first: Outcome, canary: str) -> None:
    shown = on(SOUND, "systemctl show '*' --all --no-pager; systemctl cat 'vllm@0.service'")
    assert "vllm@0.service" in shown
    assert canary not in shown
    listed = on(SOUND, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert "serve" in listed
    assert canary not in listed
    assert canary not in on(SOUND, "journalctl --no-pager -o json")


def test_secret_is_only_in_files_that_only_root_can_read(first: Outcome, canary: str) -> None:
    found = on(
        SOUND,
        f"grep -rlsF -- '{canary}' /etc /var /opt/vllm/*/.complete /usr/local /run /root /srv /tmp "
        "--exclude-dir=b200-lab",
    ).splitlines()
    assert found
    assert hardened.readable_by_others(SOUND, [*found, "/etc/hostname"]) == ["/etc/hostname"]
    assert on(SOUND, "stat -c '%a %U' /etc/b200kit/secrets") == "700 root"


def test_second_run_changes_nothing_in_two_commands(first: Outcome) -> None:
    before = cursor(SOUND)
    again = deploy("b200.py", "--limit", SOUND)
    assert again.code == 0, again.said[-3000:]
    assert again.host(SOUND)["changes"] == 0, again.host(SOUND)["stages"]
    assert remote_commands(SOUND, before) == again.host(SOUND)["commands"] == FEWEST
