"""One replica of four that answers otherwise: named by the smoke test, kept out by the watchdog,
and distinguished from a GPU whose fault moves with it.

The stand-in of that replica does so by a drop-in of its unit alone.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import tests.lab as lab
from b200kit.node.state.watchdog import MARK
from tests.e2e.conftest import SHORT, Boot
from tests.e2e.driving import ROOT, Outcome, command, cursor, deploy, on, unwatched
from tests.subtests import in_subtests

pytestmark = pytest.mark.long

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
def serving(boot: Boot) -> Outcome:
    """A node with four replicas that agree."""
    boot("healthy")
    done = deploy("b200.py", *DATA)
    assert done.outcome(NODE) == "live", done.said[-4000:]
    return done


@contextmanager
def answering(fault: str) -> Iterator[None]:
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
    with unwatched(NODE), answering(fault):
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
    log = f"journalctl -u b200-agent.service -o cat --no-pager --after-cursor='{since}'"
    loop = f"until {log} | grep -qF '{words}'; do sleep 1; done"
    done = lab.run(NODE, ["timeout", "300", "sh", "-c", loop], 330)
    assert done.returncode == 0, on(NODE, f"{log} | tail -n 40")


def test_watchdog_takes_out_an_idle_replica_that_answers_otherwise(serving: Outcome) -> None:
    assert json.loads(on(NODE, "cat /var/lib/b200kit/golden.json"))["of"].startswith(NODE)
    since = cursor(NODE)
    with answering("garbled"):
        # Restarts do not cure it, so it is never put back.
        wait_until_said("not restarted any more, and the node is marked", since)
        assert "UP" not in on(NODE, f"{PROGRAM} rotation list | grep '^vllm{WRONG} '").split()
    log = on(NODE, f"journalctl -u b200-agent.service -o cat --after-cursor='{since}'")
    assert f"vllm{WRONG}: probe: in doubt: answers otherwise than the reference of {NODE}" in log
    assert f"vllm{WRONG}: out of the gateway: answers otherwise than the reference" in log
    assert "back in the gateway" not in log
    assert not [line for line in log.splitlines() if line.startswith(OTHERS)]
    on(NODE, f"rm {MARK}")
    wait_until_said(f"vllm{WRONG}: it answers: back in the gateway", since)


def test_correctness_check_reads_the_replica_that_answers_otherwise(serving: Outcome) -> None:
    check = f"{PROGRAM} correctness-check --config /etc/b200kit/serving.json --replica {WRONG}"
    asked = f"{check} || true"
    assert json.loads(on(NODE, asked))["problems"] == []
    with unwatched(NODE), answering("garbled"):
        found = json.loads(on(NODE, asked))
    assert f"than the reference of {NODE}" in found["problems"][0]


@contextmanager
def faulty(environment: str, folder: str) -> Iterator[None]:
    """Engines of a unit, or of all, have a fault from their next start on; nobody is served."""
    on(NODE, f"mkdir -p {folder}; printf '[Service]\\n{environment}\\n' > {folder}/wrong.conf")
    on(NODE, f"systemctl daemon-reload; for i in 0 1 2 3; do {PROGRAM} rotation drain vllm$i; done")
    try:
        yield
    finally:
        units = " ".join(f"vllm@{index}.service" for index in range(4))
        on(NODE, f"rm -r {folder}; systemctl daemon-reload; systemctl restart {units}")
        on(NODE, f"for i in 0 1 2 3; do {PROGRAM} rotation ready vllm$i; done")


def test_node_that_may_serve_is_not_rotated(serving: Outcome) -> None:
    done = deploy("find_gpu.py", *DATA)
    assert (done.code, done.outcome(NODE)) == (1, "failed")
    assert "drain the node first" in done.described(NODE)


def test_gpu_whose_answers_are_wrong_everywhere_is_named(serving: Outcome) -> None:
    [index, uuid] = gpu_under(WRONG)
    fault = f"Environment=STANDIN_FAULT=garbled STANDIN_FAULT_GPU={uuid}"
    with faulty(fault, "/run/systemd/system/vllm@.service.d"):
        done = deploy("find_gpu.py", *DATA)
    assert (done.code, done.outcome(NODE)) == (1, "failed"), done.said[-4000:]
    said = done.described(NODE)
    assert f"wrong answers follow GPU {index} ({uuid}): wrong in all 3 places" in said, said
    assert gpu_under(WRONG) == [index, uuid]


def test_fault_that_stays_with_a_replica_follows_no_gpu(serving: Outcome) -> None:
    with faulty("Environment=STANDIN_FAULT=garbled", FOLDER):
        done = deploy("find_gpu.py", *DATA)
    assert f"wrong answers stay with replica {WRONG} in all 3 rounds" in done.described(NODE)


def gpu_under(replica: int) -> list[str]:
    """Index and UUID of the first GPU of a replica, as the node has it configured."""
    document = json.loads(on(NODE, "cat /etc/b200kit/serving.json"))
    uuid = document["replicas"][replica]["uuids"][0]
    head = on(NODE, f"head -n 1 /etc/vllm/replica-{replica}.yaml")
    return [head.rpartition("GPUs ")[2].split(",")[0].rstrip("."), uuid]


def test_rotation_that_was_killed_is_put_back_by_the_next_deploy(serving: Outcome) -> None:
    before = gpu_under(WRONG)
    with faulty("Environment=NOTHING=wrong", FOLDER):
        with subprocess.Popen(
            command("find_gpu.py", *DATA), cwd=ROOT, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        ) as run:  # fmt: skip
            assert run.stderr is not None
            for line in run.stderr:
                # The last replica answers in the second round: GPUs are moved.
                if "replica 3 on GPU" in line and gpu_under(WRONG) != before:
                    break
            run.send_signal(signal.SIGKILL)
        assert gpu_under(WRONG) != before
    deploy("b200.py", *DATA)
    assert gpu_under(WRONG) == before
    # Whoever drained it brings it back; until then there is nothing to measure.
    on(NODE, f"for i in 0 1 2 3; do {PROGRAM} rotation ready vllm$i; done")
    done = deploy("b200.py", *DATA)
    assert done.outcome(NODE) == "live", done.described(NODE)
