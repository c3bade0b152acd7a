"""One replica of four that answers otherwise: found and named by the smoke test.

The stand-in of that replica is told to, in a drop-in of its unit alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.conftest import SHORT, Boot
from tests.e2e.driving import Outcome, deploy, on
from tests.subtests import in_subtests

NODE, WRONG = "b200-1", 2
UNIT = f"vllm@{WRONG}.service"
FOLDER = f"/run/systemd/system/{UNIT}.d"
DATA = (
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
    with told(fault):
        done = deploy("smoke.py", *DATA)
    assert (done.code, done.outcome(NODE)) == (1, "failed"), done.said[-4000:]
    assert said in done.described(NODE)
    others = {f"direct-{index}" for index in range(4) if index != WRONG}
    assert not [name for name in others if f"{name}: " in done.described(NODE).split(";")[0]]


def test_sound_again_it_passes_against_the_reference(serving: Outcome) -> None:
    done = deploy("smoke.py", *DATA)
    assert done.code == 0, done.said[-4000:]
    assert done.host(NODE)["smoke"]["golden"]["reference"]["outcome"] == "same"
