"""`hook`: one command of the site's is told of each event, as a line of JSON on its stdin.

It follows the agent's file, which holds the last events; nothing the command does holds the agent
up. An event is told until the command exits 0, at most TRIES times, each within the deadline; what
was not taken by then, or is older than OLDEST_S by the clock of the boot, is dropped with a line in
the journal, and so is what the file held no longer when its turn came. After a kill an event may
come twice, with the same id. Whatever the command started ends with it. Exit 0 when the program or
its command was replaced, 2 for a bad configuration.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from b200kit.node.lib import boot_clock, documents, durable_files, program
from b200kit.node.lib.boot_clock import Moment
from b200kit.node.lib.documents import Range, unstructure
from b200kit.node.lib.managed_files import STATE_DIRECTORY
from b200kit.node.lib.program import identity
from b200kit.node.state import agent
from b200kit.node.state.agent import AgentState
from b200kit.node.state.event import Event

CONFIG = Path("/etc/b200kit/hook.json")
TOLD = STATE_DIRECTORY / "hook" / "told.json"
TRIES, FIRST_S, MOST_S = 8, 1.0, 300.0
"""How often an event is told, and the wait after a failure: doubled each time."""
OLDEST_S = 86_400.0
_EVERY_S = 1.0
_ENDS_S = 2.0


@dataclass(frozen=True)
class HookPlan:
    """*command*: its words; *deadline_s*: what one event may take it."""

    schema: ClassVar[str] = "b200kit/hook/1"

    command: tuple[str, ...]
    deadline_s: Annotated[float, Range(0, above=True)] = 10.0


@dataclass(frozen=True)
class Told:
    """The number of the last event that is done with."""

    number: Annotated[int, Range(0)]


@dataclass
class Hook:
    """*run*: tells the command of one event, and says why that failed, or None."""

    run: Callable[[Event], str | None]
    state: Path = Path(agent.PATH)
    kept: Path = TOLD
    clock: Callable[[], Moment] = boot_clock.now
    wait: Callable[[float], None] = time.sleep
    told: int | None = None
    _seen: tuple[int, int] | None = field(default=None, repr=False)

    def follow(self, lives: Callable[[], bool]) -> None:
        """Tell what comes, for as long as it *lives*."""
        found = documents.remembered(Told, self.kept)
        self.told = found.number if found else None
        while lives():
            seen = identity(self.state)
            if seen != self._seen:
                self._seen = seen
                for event in self.due():
                    self.tell(event)
            self.wait(_EVERY_S)

    def due(self) -> Iterator[Event]:
        """The events that were not told yet, in order; of a first start those of now on alone."""
        state = documents.remembered(AgentState, self.state)
        if state is None:
            return
        if self.told is None or state.last_event < self.told:
            # Nobody was told before, or the agent lost its count.
            self.done(0 if self.told is not None else state.last_event)
        last = self.told or 0
        for event in (one for one in state.events if one.number > last):
            if missing := event.number - (self.told or 0) - 1:
                say(f"{missing} events are dropped: they came faster than they were taken")
            yield event

    def tell(self, event: Event) -> None:
        """Tell one, until it is taken or given up."""
        wait, why = FIRST_S, ""
        for _ in range(TRIES):
            now = self.clock()
            if event.boot_id == now.boot_id and now.seconds - event.boot_s > OLDEST_S:
                why = "it is a day old"
                break
            problem = self.run(event)
            if problem is None:
                self.done(event.number)
                return
            why = f"{TRIES} times: {problem}"
            say(f"{event.id} was not taken: {problem}; again in {wait:g} s")
            self.wait(wait)
            wait = min(MOST_S, 2 * wait)
        say(f"{event.id} ({event.kind}) is dropped: {why}")
        self.done(event.number)

    def done(self, number: int) -> None:
        """Remember that all up to a number are done with."""
        self.told = number
        try:
            durable_files.replace(self.kept, documents.to_bytes(Told(number)))
        except OSError as error:
            say(f"which events were sent could not be recorded: {error}")


def run(plan: HookPlan, event: Event) -> str | None:
    """Tell the command; why that failed, or None. Its own end decides. What it says on stderr is
    in the journal; all that it started ends with it.
    """
    adopt_orphans()
    line = json.dumps(unstructure(event)).encode() + b"\n"
    name, others = plan.command[0], {*_children()}
    # No pipe: what it started may keep one open.
    with open(os.memfd_create("event"), "w+b") as stdin:
        stdin.write(line)
        stdin.seek(0)
        try:
            process = subprocess.Popen(
                plan.command, stdin=stdin, stdout=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            return f"{name}: {error.strerror}"
    try:
        code = process.wait(plan.deadline_s)
    except subprocess.TimeoutExpired:
        return f"{name} took more than {plan.deadline_s:g} s and was killed"
    finally:
        end_all(process, others)
    return f"{name} exited {code}" if code else None


def adopt_orphans() -> None:
    """What a child leaves behind becomes our child (PR_SET_CHILD_SUBREAPER, prctl(2))."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def end_all(process: subprocess.Popen[bytes], others: Collection[int]) -> None:
    """Kill and reap the command and all it started; what waits in the kernel is not waited for.

    What one that is killed had started in a session of its own becomes our child, and is killed in
    turn. *others*: our children of before.
    """
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_ENDS_S)
    end = time.monotonic() + _ENDS_S
    while (left := {*_children()}.difference(others)) and time.monotonic() < end:
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)


def _children() -> list[int]:
    """Our own children (proc(5), /proc/PID/task/TID/children)."""
    me = os.getpid()
    listed = Path(f"/proc/{me}/task/{me}/children").read_text(encoding="ascii")
    return [int(pid) for pid in listed.split()]


def say(line: str) -> None:
    """One line for the journal."""
    print(f"hook: {line}", file=sys.stderr, flush=True)


def main(args: list[str]) -> int:
    """`hook`."""
    argparse.ArgumentParser(prog="hook", description=__doc__).parse_args(args)
    try:
        plan = documents.load(HookPlan, CONFIG)
    except (OSError, documents.Malformed) as error:
        say(str(error))
        return 2
    files: Sequence[Path] = (CONFIG, program.LOCATION)
    known = [identity(path) for path in files]
    Hook(lambda event: run(plan, event)).follow(lambda: [identity(path) for path in files] == known)
    return 0
