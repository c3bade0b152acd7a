"""Where an event is sent: a command of the site's, or its webhook. Each with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from b200kit.node.client.http import Deadlines, exchange
from b200kit.node.client.message import HttpError
from b200kit.node.events.config import KEY, URL, EventPlan, credential

_END_S = 1.0
"""How long what is killed may take to end."""


class Sink(Protocol):
    """A receiver of events."""

    @property
    def name(self) -> str:
        """What the journal and the record of deliveries call it."""

    async def tell(self, event: Mapping[str, Any]) -> str | None:
        """Tell it of one event, within the deadline; why that failed, or None."""


@dataclass(frozen=True)
class Command:
    """A program that gets the event as one line of JSON on its stdin; exit status 0 took it."""

    argv: Sequence[str]
    deadline_s: float
    name: str = "command"

    async def tell(self, event: Mapping[str, Any]) -> str | None:
        """As the protocol says. What it says on stderr is in the journal.

        Its own end decides; all it started ends with it, also what has a session of its own.
        """
        line = json.dumps(event).encode() + b"\n"
        with _adopting_orphans():
            try:
                return await self._run(line)
            except OSError as error:
                return f"{self.argv[0]}: {error.strerror}"

    async def _run(self, line: bytes) -> str | None:
        """Raises OSError where it cannot be started."""
        others = _children()
        # No pipe: what it started may keep one open.
        with open(os.memfd_create("event"), "w+b") as stdin:
            stdin.write(line)
            stdin.seek(0)
            process = await asyncio.create_subprocess_exec(
                *self.argv, stdin=stdin, stdout=asyncio.subprocess.DEVNULL, start_new_session=True
            )
        try:
            code = await asyncio.wait_for(process.wait(), self.deadline_s)
        except asyncio.TimeoutError:
            return f"{self.argv[0]} took more than {self.deadline_s:g} s and was killed"
        finally:
            await _end(process, others)
        return f"{self.argv[0]} exited {code}" if code else None


@contextlib.contextmanager
def _adopting_orphans() -> Iterator[None]:
    """What a child leaves behind becomes our child meanwhile (PR_SET_CHILD_SUBREAPER, prctl(2))."""
    prctl = ctypes.CDLL(None).prctl
    prctl(36, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(36, 0, 0, 0, 0)


def _children() -> set[int]:
    """Our own children, of all threads (proc(5), /proc/PID/task/TID/children)."""
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended meanwhile
            found.update(map(int, path.read_text(encoding="ascii").split()))
    return found


async def _end(process: asyncio.subprocess.Process, others: Collection[int]) -> None:
    """Kill it and all it started, and reap them; what waits in the kernel is not waited for.

    What a killed one had started in a session of its own becomes our child, and is killed in turn.
    *others* are none of it.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(process.wait(), _END_S)
    end = time.monotonic() + _END_S
    while (left := _children() - {process.pid, *others}) and time.monotonic() < end:
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
        await asyncio.sleep(0.01)


@dataclass(frozen=True)
class Webhook:
    """An HTTPS address that gets the event as the body of a POST; a status of 2xx took it."""

    url: str
    ca_file: str
    deadline_s: float
    key: str | None = None
    name: str = "webhook"

    async def tell(self, event: Mapping[str, Any]) -> str | None:
        """As the protocol says. Neither the key nor the URL's path is in a word of a failure."""
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        limits = Deadlines(self.deadline_s, self.deadline_s, self.deadline_s)
        asked = exchange(
            "POST", self.url, headers, dict(event), limits, self.ca_file or None, named=True
        )
        try:
            answer = await asyncio.wait_for(asked, self.deadline_s)
            status = answer.status
        except asyncio.TimeoutError:
            return f"no answer within {self.deadline_s:g} s"
        except HttpError as error:
            return answer.fault or str(error)
        except OSError as error:
            return str(error)
        return None if 200 <= status < 300 else f"HTTP {status}"


def sinks(plan: EventPlan) -> list[Sink]:
    """Those of a plan. Raises OSError where the webhook's URL or key cannot be read."""
    found: list[Sink] = []
    if plan.command:
        found.append(Command(plan.command, plan.deadline_s))
    if plan.webhook:
        url = credential(URL)
        if url is None:
            raise OSError("the webhook's URL is not among the unit's credentials")
        found.append(Webhook(url, plan.ca_file, plan.deadline_s, credential(KEY)))
    return found
