"""A new image by a command of the site's own: its input, output, answer, and how it ends."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from b200kit.inventory.keys.reprovision import Reimage
from b200kit.reprovision.actions import ActionFailed, ActionRefused
from b200kit.reprovision.ledger_line import IntentLine
from b200kit.reprovision.reimage import Progress
from b200kit.reprovision.reimage.command import System
from b200kit.run.node import Node
from tests.messages import raises_message
from tests.unit.run.test_known_hosts import NEW

INTENT = IntentLine(step="action", id="a1")
Make = Callable[[str], System]


@pytest.fixture
def system(tmp_path: Path) -> Iterator[Make]:
    made: list[System] = []

    def make(script: str) -> System:
        program = tmp_path / "site-reimage"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        node = cast(Node, SimpleNamespace(name="n01", remote=None))
        made.append(
            System(node, Reimage(method="command", command=(str(program), "-x"), image="noble"))
        )
        return made[-1]

    yield make
    for each in made:
        each.close()


def end(system: System) -> tuple[list[str], Progress]:
    seen: list[str] = []
    limit = time.monotonic() + 300
    while time.monotonic() < limit:
        progress = system.advance(INTENT)
        seen += progress.observed
        if progress.done:
            return seen, progress
        time.sleep(0.01)
    raise AssertionError("it did not end")


def test_command_is_told_the_node_and_answers_with_its_host_keys(system: Make) -> None:
    answer = json.dumps({"host_keys": [f"{NEW} root@n01"]})
    script = 'echo "$B200_NODE $B200_ADDRESS $B200_ACT $B200_IMAGE $1" >&2; echo booting >&2\n'
    seen, done = end(system(script + f"echo chatter\necho '{answer}'"))
    assert seen == ["n01 n01 a1 noble -x", "booting"]
    assert done.host_keys == (NEW,)


def test_command_that_says_nothing_leaves_the_pinned_key(system: Make) -> None:
    assert end(system("true")) == ([], Progress((), True, ()))


@pytest.mark.parametrize(
    "script",
    [
        "echo 'no such profile' >&2; exit 3",
        "kill -9 $$",
        "echo done",
        'echo \'{"host_keys": "x"}\'',
        'echo \'{"host_keys": ["ssh-ed25519 AAAA"]}\'',
    ],
)
def test_what_went_wrong_is_one_line(system: Make, script: str) -> None:
    with raises_message(ActionFailed):
        end(system(script))


def test_command_that_cannot_be_run_is_nobodys_fault_but_the_inventorys(system: Make) -> None:
    made = system("true")
    made._requested = Reimage(method="command", command=("/no/such/program",))
    with raises_message(ActionRefused):
        made.advance(INTENT)


def test_nothing_of_it_is_left_running(system: Make, tmp_path: Path) -> None:
    made = system(f"sleep 600 & echo $! > {tmp_path}/child; echo started >&2; wait")
    while not made.advance(INTENT).observed:
        time.sleep(0.01)
    made.close()
    child = int((tmp_path / "child").read_text())
    state = Path(f"/proc/{child}/stat")
    # It was terminated; where nobody waits for it, it stays a zombie.
    while state.exists() and state.read_text().split()[2] != "Z":
        time.sleep(0.01)
