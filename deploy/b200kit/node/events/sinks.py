"""Where an event is sent: a command of the site's, or its webhook. Each with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from b200kit.node.client.http import Deadlines, exchange
from b200kit.node.client.message import HttpError
from b200kit.node.events.config import EventPlan, key
from b200kit.node.lib.error_line import cause


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
        """As the protocol says. It and all it started are killed when it takes too long."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self.argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            return f"{self.argv[0]}: {error.strerror}"
        line = json.dumps(event).encode() + b"\n"
        try:
            _, said = await asyncio.wait_for(process.communicate(line), self.deadline_s)
        except asyncio.TimeoutError:
            return f"{self.argv[0]} took more than {self.deadline_s:g} s and was killed"
        finally:
            await _end(process)
        if process.returncode:
            lines = said.decode("utf-8", "replace").splitlines()
            return f"{self.argv[0]} exited {process.returncode}: {cause(lines)}"
        return None


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill it and all it started, and reap it; one that waits in the kernel is not waited for."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(process.wait(), 1.0)


@dataclass(frozen=True)
class Webhook:
    """An HTTPS address that gets the event as the body of a POST; a status of 2xx took it."""

    url: str
    ca_file: str
    deadline_s: float
    key: str | None = None
    name: str = "webhook"

    async def tell(self, event: Mapping[str, Any]) -> str | None:
        """As the protocol says. The key is in no word of a failure."""
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
    """Those of a plan. Raises OSError where the webhook's key cannot be read."""
    found: list[Sink] = []
    if plan.command:
        found.append(Command(plan.command, plan.deadline_s))
    if plan.url:
        found.append(Webhook(plan.url, plan.ca_file, plan.deadline_s, key()))
    return found
