"""The process that checks health: kept from one check to the next, ended at its deadline, and
replaced.

What hangs a GPU's driver may hang whoever asks it, beyond any signal; such a one is left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from b200kit.node.lib import documents
from b200kit.node.state.watch import HealthCheck

TIMEOUT, FAILED, SUCCESS = "timeout", "exit-code", "success"
_LIMIT = HealthCheck.most_bytes
_ENDS_S = 1.0


class HealthCheckFailed(Exception):
    """A health check that says nothing: *result*, a word above, and why in one line."""

    def __init__(self, result: str, why: str) -> None:
        super().__init__(why)
        self.result = result


@dataclass
class HealthChecker:
    """*argv*: the program that checks; *deadline_s*: what one health check may take."""

    argv: Sequence[str]
    deadline_s: float
    _process: asyncio.subprocess.Process | None = field(default=None, repr=False)

    async def look(self, before: HealthCheck | None, fresh: bool = False) -> HealthCheck:
        """One. *before*: the last one, which a new process needs. Raises HealthCheckFailed."""
        try:
            return await asyncio.wait_for(self._look(before, fresh), self.deadline_s)
        except asyncio.TimeoutError:
            await self.end()
            raise HealthCheckFailed(
                TIMEOUT, f"a health check took more than {self.deadline_s:g} s"
            ) from None
        except (OSError, ValueError) as error:
            await self.end()
            raise HealthCheckFailed(FAILED, f"a health check failed: {error}") from None

    async def _look(self, before: HealthCheck | None, fresh: bool) -> HealthCheck:
        process = self._process
        is_new = process is None or process.returncode is not None
        if process is None or is_new:
            self._process = process = await asyncio.create_subprocess_exec(
                *self.argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_LIMIT,
                start_new_session=True,
            )
        assert process.stdin is not None  # noqa: S101 - a pipe
        assert process.stdout is not None  # noqa: S101 - a pipe
        known = documents.unstructure(before) if before and is_new else None
        process.stdin.write(json.dumps({"fresh": fresh, "before": known}).encode() + b"\n")
        await process.stdin.drain()
        line = await process.stdout.readline()
        if not line.endswith(b"\n"):
            raise OSError("its process ended")
        return documents.decode(HealthCheck, line, _LIMIT)

    async def end(self) -> None:
        """End the process; one that waits in the kernel does not even die, and is left."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), _ENDS_S)
