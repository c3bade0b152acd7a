"""The GPUs while a load runs: the parent's side of gpu_sampler.py; it never waits long."""

from __future__ import annotations

import os
import select
import subprocess
import time
from contextlib import suppress
from types import TracebackType
from typing import Any

from b200kit.node.client.smoke_result import GpuFigures
from b200kit.node.lib import documents, program
from b200kit.node.state.view import Unmeasured

READY_S = 10.0
"""Seconds to wait for NVML before the load begins; it starts the driver where nothing holds it."""
ANSWER_S = 5.0
"""Seconds the answer may take; a reading under way at the end has one of them."""
GONE_S = 1.0
"""Seconds until the killed process is gone, where it can be."""


class GpuWatch:
    """A started sampler. Use it in a `with`: at its end the process is gone, whatever happened."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            program.argv("_gpus"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.data = b""
        self.begun = time.monotonic()

    def __enter__(self) -> GpuWatch:
        """The watch itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Let go of the process; one that is stuck in the kernel cannot be waited for."""
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=GONE_S)

    def begin(self) -> None:
        """The load begins: wait until every GPU was read once, at most READY_S."""
        self._line(time.monotonic() + READY_S)
        self.begun = time.monotonic()

    def end(self) -> Unmeasured | tuple[GpuFigures, ...]:
        """The load is over: the figures of each GPU, or why there are none."""
        assert self.process.stdin is not None  # noqa: S101 - opened as a pipe above
        desired = f"{self.begun} {time.monotonic()}\n".encode()
        with suppress(OSError):
            self.process.stdin.write(desired)
            self.process.stdin.flush()
        deadline = time.monotonic() + ANSWER_S
        line = self._line(deadline)
        if line == b'"ready"':  # it came only after the load had begun
            line = self._line(deadline)
        kind: Any = Unmeasured | tuple[GpuFigures, ...]
        try:
            found: Unmeasured | tuple[GpuFigures, ...] = documents.decode(kind, line)
        except documents.Malformed:
            return Unmeasured("the GPUs' reader gave no answer")
        return found

    def _line(self, deadline: float) -> bytes:
        """The next line; nothing when it does not come in time or the process is gone."""
        assert self.process.stdout is not None  # noqa: S101 - opened as a pipe above
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self.data:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                return b""
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                return b""
            self.data += chunk
        line, _, self.data = self.data.partition(b"\n")
        return line
