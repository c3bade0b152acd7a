"""Whether another process still runs, by what it called itself."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from b200kit.node.lib.documents import unstructure
from b200kit.run import process
from tests.subtests import in_subtests

HERE = process.this()
FIRST = replace(HERE, machine="m", namespace=0xEFFFFFFC)


def test_this_process_and_its_parent_run() -> None:
    assert process.is_dead(unstructure(HERE)) is False
    parent = process._of(os.getppid())
    assert process.is_dead(unstructure(parent)) is False


def test_id_that_another_process_has_by_now_is_of_a_dead_one() -> None:
    assert process.is_dead(unstructure(replace(HERE, started=HERE.started - 1)))


def test_process_that_nobody_waits_for_is_dead() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    zombie = replace(HERE, pid=child)
    assert process.is_dead(unstructure(zombie))
    os.waitpid(child, 0)


@in_subtests("pid", [None, [1], ".", "../sys/block/sda", "1\0", 1.0])
def test_what_is_no_process_id_is_of_no_dead_process(pid: object) -> None:
    """A node gives it back to us, and it stands in a path."""
    assert process.is_dead({**unstructure(HERE), "pid": pid}) is False


@in_subtests(
    ("here", "other", "dead"),
    [
        # The machine was booted since.
        (FIRST, replace(FIRST, boot="before"), True),
        # Containers of one image, on two machines.
        (replace(FIRST, namespace=1), replace(FIRST, namespace=2, boot="before"), False),
        (FIRST, replace(FIRST, namespace=2, boot="before"), False),
        # Another machine, made of the same image with its machine id.
        (FIRST, replace(FIRST, host="another", boot="before"), False),
        # A machine that has no id.
        (replace(FIRST, machine=""), replace(FIRST, machine="", boot="before"), False),
        # Two containers on one machine.
        (FIRST, replace(FIRST, namespace=2, pid=4_000_000), False),
    ],
)
def test_who_cannot_be_seen_from_here_is_not_called_dead(
    here: process.Process, other: process.Process, dead: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "this", lambda: here)
        assert process.is_dead(unstructure(other)) is dead
