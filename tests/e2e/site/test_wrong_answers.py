"""One replica of four that answers otherwise: named by the smoke test, kept out by the watchdog.

The stand-in of that replica is told to, in a drop-in of its unit alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import tests.lab as lab
from b200kit.node.state.watchdog import MARK
from tests.e2e.conftest import SHORT, Boot
from tests.e2e.driving import Outcome, cursor, deploy, on
from tests.subtests import in_subtests

NODE, WRONG = "b200-1", 2
UNIT = f"vllm@{WRONG}.service"
FOLDER = f"/run/systemd/system/{UNIT}.d"
PROGRAM = "python3 -I /usr/local/lib/b200kit/node.pyz"
OTHERS = tuple(f"vllm{index}: " for index in range(4) if index != WRONG)
WATCHDOG = {"deadline_s": 120.0, "stall_s": 600.0, "interval_s": 1.0}
DATA = (
    "--data", f"watchdog={json.dumps(WATCHDOG)}",
    "--data", "replicas=4", "--data", "tensor_parallel=2", "--data", f"smoke={json.dumps(SHORT)}",
)  # fmt: skip


@pytest.fixture(scope="module")
def serving(boot: Boot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """A node with four replicas that agree, and records that know of no other."""
    boot("healthy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("B200_RECORDS", str(tmp_path_factory.mktemp("records")))
        done = deploy("b200.py", *DATA)
        assert done.outcome(NODE) == "live", done.said[-4000:]
        yield done


@contextmanager
def unwatched() -> Iterator[None]:
    """The watchdog, which would take the replica out before it is measured, stands still."""
    on(NODE, "systemctl stop b200-watchdog.service")
    try:
        yield
    finally:
        on(NODE, "systemctl start b200-watchdog.service")


@contextmanager
def told(fault: str) -> Iterator[None]:
    """The replica's engine answers with this fault, until the end of the block."""
    line = f"[Service]\\nEnvironment=STANDIN_FAULT={fault}\\n"
    on(NODE, f"mkdir -p {FOLDER}; printf '{line}' > {FOLDER}/wrong.conf; {restart()}")
    try:
        yield
    finally:
        on(NODE, f"rm -r {FOLDER}; {restart()}")


def restart() -> str:
    """A shell line that starts the replica again, warm when it returns."""
    return f"systemctl daemon-reload; systemctl reset-failed {UNIT}; systemctl restart {UNIT}"


def test_answers_of_replicas_that_agree_become_the_reference(serving: Outcome) -> None:
    golden = serving.host(NODE)["smoke"]["golden"]
    assert (golden["agreed"], golden["requests"]) == (True, 24)
    assert golden["reference"]["outcome"] == "accepted"
    print(json.dumps({"golden_seconds": golden["seconds"]}))


@in_subtests(
    ("fault", "said"),
    [
        ("garbled", f"direct-{WRONG}: answers otherwise than the other replicas: prompt 1, token"),
        ("drifted", f"direct-{WRONG}: answers otherwise than the other replicas: prompt"),
        ("parrot", f"direct-{WRONG}: the same answer to 6 different prompts"),
    ],
)
def test_replica_that_answers_otherwise_is_named(serving: Outcome, fault: str, said: str) -> None:
    with unwatched(), told(fault):
        done = deploy("smoke.py", *DATA)
    assert (done.code, done.outcome(NODE)) == (1, "failed"), done.said[-4000:]
    assert said in done.described(NODE)
    others = {f"direct-{index}" for index in range(4) if index != WRONG}
    assert not [name for name in others if f"{name}: " in done.described(NODE).split(";")[0]]


def test_sound_again_it_passes_against_the_reference(serving: Outcome) -> None:
    done = deploy("smoke.py", *DATA)
    assert done.code == 0, done.said[-4000:]
    assert done.host(NODE)["smoke"]["golden"]["reference"]["outcome"] == "same"


def wait_until_said(words: str, since: str) -> None:
    """Return when the watchdog said so after a cursor."""
    log = f"journalctl -u b200-watchdog.service -o cat --no-pager --after-cursor='{since}'"
    loop = f"until {log} | grep -qF '{words}'; do sleep 1; done"
    done = lab.run(NODE, ["timeout", "300", "sh", "-c", loop], 330)
    assert done.returncode == 0, on(NODE, f"{log} | tail -n 40")


def test_watchdog_takes_out_an_idle_replica_that_answers_otherwise(serving: Outcome) -> None:
    assert json.loads(on(NODE, "cat /var/lib/b200kit/golden.json"))["of"].startswith(NODE)
    since = cursor(NODE)
    with told("garbled"):
        # Restarts do not cure it, so it is never put back.
        wait_until_said("not restarted any more, and the node is marked", since)
        assert "UP" not in on(NODE, f"{PROGRAM} rotation list | grep '^vllm{WRONG} '").split()
    log = on(NODE, f"journalctl -u b200-watchdog.service -o cat --after-cursor='{since}'")
    assert f"vllm{WRONG}: probe: in doubt: answers otherwise than the reference of {NODE}" in log
    assert f"vllm{WRONG}: out of the gateway: answers otherwise than the reference" in log
    assert "back in the gateway" not in log
    assert not [line for line in log.splitlines() if line.startswith(OTHERS)]
    on(NODE, f"rm {MARK}")
    wait_until_said(f"vllm{WRONG}: it answers: back in the gateway", since)


def test_correctness_check_reads_the_replica_that_answers_otherwise(serving: Outcome) -> None:
    check = f"{PROGRAM} correctness-check --config /etc/b200kit/serving.json --replica {WRONG}"
    asked = f"{check} || true"
    assert json.loads(on(NODE, asked))["ok"]
    with unwatched(), told("garbled"):
        found = json.loads(on(NODE, asked))
    assert not found["ok"]
    assert f"than the reference of {NODE}" in found["problems"][0]
