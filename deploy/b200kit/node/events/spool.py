"""The events that nobody has taken yet: one file each, a bounded number, the oldest dropped.

Without /etc/b200kit/events.json there is no sink, and nothing is written. Whoever tells
something goes on whatever becomes of it: what cannot be written is a line in the journal.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from b200kit.node.events.config import CONFIG, EventPlan, load
from b200kit.node.lib import boot_clock, documents, durable_files, timestamp
from b200kit.node.lib.managed_files import STATE_DIRECTORY
from b200kit.node.lib.readings import is_digits
from b200kit.node.state.event import Event

DIRECTORY = STATE_DIRECTORY / "events"
_DROPPED = ".dropped"
"""How many were dropped undelivered. Hidden: what systemd waits for is a file that is not."""


@dataclass(frozen=True)
class Spool:
    """Where events wait. Its files' names are in the order in which they came."""

    directory: Path = DIRECTORY
    config: Path = CONFIG

    def put(self, event: Event) -> None:
        """Keep an event for the sinks, if there are any. Never raises, never waits for a sink."""
        try:
            plan = load(self.config)
            if plan is not None:
                self._put(event, plan)
        except (OSError, ValueError) as error:
            _say(f"{event.kind} is not kept: {error}")

    def _put(self, event: Event, plan: EventPlan) -> None:
        boot, count = boot_clock.now().boot_id, time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        stamped = event.stamped(count, timestamp.now(), plan.node, boot)
        self._make_room(plan.kept)
        # A number, as the time of day may be stepped, and another boot counted from 0, too.
        number = max([-1, *(int(n[:12]) for n in self.names() if is_digits(n[:12]))]) + 1
        path = self.directory / f"{number:012d}-{boot.replace('-', '')}-{count:020d}.json"
        durable_files.replace(path, documents.to_bytes(stamped))

    def names(self) -> list[str]:
        """The events that wait, the oldest first."""
        try:
            return sorted(path.name for path in self.directory.glob("[0-9]*.json"))
        except OSError:
            return []

    def read(self, name: str) -> Event | None:
        """One of them; None where it is none, or cannot be read."""
        return documents.remembered(Event, self.directory / name)

    def remove(self, name: str) -> None:
        """Take one away that nobody waits for any more."""
        with contextlib.suppress(OSError):
            (self.directory / name).unlink()

    def drop(self, name: str, why: str) -> None:
        """Take one away that some sink has not received: counted, and in the journal."""
        self.remove(name)
        count = self.dropped() + 1
        _say(f"{name} is dropped, {why}; {count} were until now")
        with contextlib.suppress(OSError):
            durable_files.replace(self.directory / _DROPPED, f"{count}\n")

    def dropped(self) -> int:
        """How many were dropped for good."""
        try:
            return int((self.directory / _DROPPED).read_text(encoding="ascii"))
        except (OSError, ValueError):
            return 0

    def counts(self) -> tuple[int, int]:
        """How many wait, and how many were dropped. Raises OSError or ValueError: unreadable."""
        try:
            there = os.listdir(self.directory)
        except FileNotFoundError:
            return 0, 0
        waiting = sum(is_digits(name[0]) and name.endswith(".json") for name in there)
        counted = (self.directory / _DROPPED).read_text("ascii") if _DROPPED in there else "0"
        return waiting, int(counted)

    def age_s(self, name: str) -> float:
        """Seconds since it came, or, of an earlier boot, since this one began.

        The time of day is not asked: it may be stepped. Raises OSError.
        """
        # Not every file that lies there is of this form.
        _, boot, count, *_ = [*name.removesuffix(".json").split("-"), "", ""]
        now = boot_clock.now()
        return now.seconds - (
            int(count) / 1e9 if is_digits(count) and boot == now.boot_id.replace("-", "") else 0.0
        )

    def _make_room(self, most: int) -> None:
        waiting = self.names()
        for name in waiting[: max(0, len(waiting) + 1 - most)]:
            self.drop(name, f"as {most} wait already")


def put(event: Event) -> None:
    """Keep an event for this node's sinks, if it has any. Never raises."""
    Spool().put(event)


def _say(line: str) -> None:
    print(f"events: {line}", file=sys.stderr, flush=True)
