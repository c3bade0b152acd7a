"""`events`: tell the site's sinks what waits in the spool, until nothing waits any more.

systemd starts it when there is an event (b200-events.path). Each sink goes at its own pace: one
that fails is tried again after a while that doubles, and the other one hears of all meanwhile. An
event is gone once every sink has it, or when it is a day old. A sink that took an event and a
delivery that was killed before that was written down mean that it is sent twice, under the same id.
Exit 0 when nothing waits, 2 for a bad configuration.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from b200kit.node.events.config import load
from b200kit.node.events.sinks import Sink, sinks
from b200kit.node.events.spool import Spool
from b200kit.node.lib import documents, durable_files
from b200kit.node.lib.documents import unstructure

DELIVERED = ".delivered.json"
OLDEST_S = 86_400.0
FIRST_S, MOST_S = 1.0, 300.0
"""How long a sink that failed is left alone: doubled each time in a row."""
_EVERY_S = 1.0


@dataclass
class Delivery:
    """What each sink has received. Kept beside the events, for a delivery that is killed."""

    spool: Spool
    sinks: Sequence[Sink]
    delivered: dict[str, set[str]] = field(default_factory=dict)

    def recall(self) -> None:
        """Take up what an earlier delivery had delivered; nothing where that cannot be read."""
        try:
            kept = documents.read(self.spool.directory / DELIVERED, documents.LARGE)
            self.delivered = {str(sink): set(map(str, names)) for sink, names in kept.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            self.delivered = {}

    def left(self, sink: Sink) -> list[str]:
        """The events that a sink has not received."""
        received = self.delivered.get(sink.name, set())
        return [name for name in self.spool.names() if name not in received]

    def took(self, sink: Sink, name: str) -> None:
        """One sink has one event; the last one to have it ends it."""
        self.delivered.setdefault(sink.name, set()).add(name)
        if all(name in self.delivered.get(one.name, ()) for one in self.sinks):
            self.spool.remove(name)
        waiting = set(self.spool.names())
        self.delivered = {who: names & waiting for who, names in self.delivered.items()}
        kept = {who: sorted(names) for who, names in self.delivered.items()}
        try:
            durable_files.replace(self.spool.directory / DELIVERED, json.dumps(kept) + "\n")
        except OSError as error:
            _say(f"what was delivered could not be written down: {error}")

    def drop_old(self, sink: Sink) -> None:
        """Give up what a sink did not take for a day."""
        for name in self.left(sink):
            if self.spool.age_s(name) > OLDEST_S:
                self.spool.drop(name, f"as {sink.name} did not take it for a day")


@dataclass
class Turns:
    """Which event a sink gets next, and when. *tries*: how often each one failed there."""

    clock: Callable[[], float] = time.monotonic
    tries: Counter[str] = field(default_factory=Counter)
    failures: int = 0
    not_before: float = 0.0

    def next(self, left: Sequence[str]) -> str | None:
        """The oldest of those that failed least: one that no sink takes holds up no other."""
        if self.clock() < self.not_before:
            return None
        return min(left, key=lambda name: (self.tries[name], name), default=None)

    def took(self) -> None:
        """It took one: it is there."""
        self.failures = 0

    def failed(self, name: str) -> float:
        """It took none; the seconds that it is left alone now."""
        self.tries[name] += 1
        wait = min(MOST_S, FIRST_S * 2.0 ** min(self.failures, 20))
        self.failures += 1
        self.not_before = self.clock() + wait
        return wait


async def serve(sink: Sink, delivery: Delivery) -> None:
    """Serve one sink, for ever: one that has all may get more while another is served."""
    turns = Turns()
    while True:
        delivery.drop_old(sink)
        name = turns.next(delivery.left(sink))
        if name is None:
            await asyncio.sleep(_EVERY_S)
            continue
        await one(sink, delivery, turns, name)


async def one(sink: Sink, delivery: Delivery, turns: Turns, name: str) -> None:
    """Tell one sink of one event; what is no event is taken away."""
    event = delivery.spool.read(name)
    if event is None:
        delivery.spool.drop(name, "as it is no event")
        return
    problem = await sink.tell(unstructure(event))
    if problem is None:
        turns.took()
        delivery.took(sink, name)
        return
    wait = turns.failed(name)
    _say(f"{sink.name}: {event.id} was not taken: {problem}; again in {wait:g} s")


async def deliver(spool: Spool, to: Sequence[Sink]) -> None:
    """Tell all sinks, until no event waits for anybody. Raises what ended one of them."""
    delivery = Delivery(spool, to)
    delivery.recall()
    jobs = [asyncio.ensure_future(serve(sink, delivery)) for sink in to]
    try:
        while jobs and spool.names():
            ended, _ = await asyncio.wait(jobs, timeout=_EVERY_S)
            for job in ended:
                job.result()
    finally:
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)


def _say(line: str) -> None:
    print(f"events: {line}", file=sys.stderr, flush=True)


def main(args: list[str]) -> int:
    """`events`."""
    parser = argparse.ArgumentParser(prog="events", description=__doc__)
    parser.parse_args(args)
    spool = Spool()
    try:
        plan = load(spool.config)
        to = sinks(plan) if plan else []
    except (OSError, ValueError) as error:
        print(f"events: {error}", file=sys.stderr)
        return 2
    asyncio.run(deliver(spool, to))
    return 0
