"""The observation by a process that stays: what the gate's reads, and what is kept of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.facts import resident, xid
from b200kit.node.facts.resident import KernelNews
from b200kit.node.lib import kept
from b200kit.node.lib.kept import KEPT_S, KeptReading, changes
from tests.subtests import in_subtests
from tests.unit.node.conftest import Nvml

BOTH = """
import json, os
from b200kit.node.facts.observe import observe
from b200kit.node.facts.resident import Resident
asked = {"units": ["haproxy.service"], "sysctls": ["vm.swappiness"]}
node = Resident(asked, 3.0)
node.observe()
os.environ["B200_LAB_NVML_CONF"] = os.environ["AFTERWARDS"]
print(json.dumps([observe(asked, 3.0), node.observe(), node.stuck]))
"""
MOVES = {"taken_at", "took_s", "host", "notes", "listening"}


def both(nvml: Nvml, tmp_path: Path, lines: str) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """What the gate reads of a node, what a process reads the second time, whether it is spent."""
    nvml(lines=lines)
    after = tmp_path / "after.conf"
    (tmp_path / "nvml.conf").rename(after)
    nvml()
    done = subprocess.run(
        [sys.executable, "-c", f"import os; os.environ['AFTERWARDS'] = {str(after)!r}\n{BOTH}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    gate, second, stuck = json.loads(done.stdout)
    return gate, second, stuck


@pytest.mark.parametrize(
    ("lines", "stuck"),
    [
        ("", False),
        ("gpu.5.lost=1", False),
        ("gpu.3.link.4.state=0\ngpu.1.vbios=!999", False),
        ("gpu.2.hang.nvmlDeviceGetMarginTemperature=1", True),
    ],
)
def test_a_process_that_stays_reads_what_a_new_one_does(
    nvml: Nvml, tmp_path: Path, lines: str, stuck: bool
) -> None:
    gate, second, is_stuck = both(nvml, tmp_path, lines)
    differ = {key for key in gate if gate[key] != second.get(key)}
    assert (differ - MOVES, {*gate} ^ {*second}, is_stuck) == (set(), set(), stuck)


class Reading:
    """Counts how often it is taken."""

    taken = 0

    def __call__(self) -> int:
        self.taken += 1
        return self.taken


def test_a_reading_is_kept_until_what_it_depends_on_changes_or_for_a_while(tmp_path: Path) -> None:
    now, file, read = [0.0], tmp_path / "file", Reading()
    one = KeptReading(read, lambda: changes([file]), lambda: now[0])
    assert [one.get(), one.get(), one.get(fresh=True), one.get()] == [1, 1, 2, 2]
    file.write_text("x")
    assert [one.get(), one.get()] == [3, 3]
    now[0] = KEPT_S
    assert [one.get(), one.get()] == [4, 4]


def test_what_nobody_knows_to_be_unchanged_is_read_again() -> None:
    def lost() -> None:
        raise OSError("systemd's socket")

    one = KeptReading(Reading(), lost)
    assert [one.get(), one.get()] == [1, 2]


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """The kernel's log as a file, and how often it is read whole as messages come."""
    monkeypatch.delenv(xid.OVERRIDE, raising=False)
    log, read = tmp_path / "kmsg", Reading()
    log.write_text("old\n")
    one = KeptReading(read, KernelNews(str(log)).count)

    def looks(*messages: str) -> list[int]:
        found = []
        for message in messages:
            with log.open("a") as file:
                file.write(message)
            found.append(one.get())
        return found

    return looks


def test_the_kernels_log_is_read_when_it_has_news_and_once_more_for_the_journal(
    kernel: Callable[..., list[int]],
) -> None:
    assert kernel("", "", "Xid 79\n", "", "", "Xid 31\n", "Xid 13\n", "") == [
        *(1, 1, 2, 3, 3, 4, 5, 6)
    ]


def test_a_log_that_cannot_be_followed_is_read_each_time(tmp_path: Path) -> None:
    one = KeptReading(Reading(), KernelNews(str(tmp_path / "none")).count)
    assert [one.get(), one.get()] == [1, 2]


@in_subtests("part", ["nvml", "gpus", "pci", "units", "xids", "notes", "host", "disks"])
def test_what_a_request_in_flight_depends_on_is_never_only_kept(part: str) -> None:
    assert part not in resident.RARELY
    assert kept.KEPT_S == 300.0
