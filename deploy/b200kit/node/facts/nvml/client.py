"""NVML's part of the state, read by a child process that may hang without hanging us."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from b200kit.node.lib import documents, program
from b200kit.node.lib.readings import unmeasured

KEYS = ("nvml", "gpus", "p2p")
GRACE_S = 2.0
"""Seconds past the worker's own deadline before it is given up and killed."""


class Worker:
    """A started NVML worker; `result` collects it. Starting early lets the rest run beside it."""

    def __init__(self, timeout: float, leave_out: Iterable[str] = ()) -> None:
        argv = program.argv("_nvml", "--timeout", f"{timeout:g}")
        argv += [word for key in leave_out for word in ("--leave-out", key)]
        self.timeout = timeout
        self.deadline = time.monotonic() + timeout + GRACE_S
        self.process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def result(self) -> dict[str, Any]:
        """The parts `nvml`, `gpus`, `p2p`; every one unmeasured when the worker gave nothing."""
        line = self._line()
        document = self._document(line)
        self._leave()
        return document

    def _document(self, line: bytes | None) -> dict[str, Any]:
        """The parts in the worker's line."""
        if line is None:
            return self._nothing(f"the NVML reader did not answer within {self.timeout:g} s")
        try:
            document = documents.decode(documents.Object, line, documents.LARGE)
        except ValueError:
            return self._nothing(f"the NVML reader failed: {self._last_line()}")
        return {key: document.get(key, unmeasured("not in the reader's answer")) for key in KEYS}

    def _line(self) -> bytes | None:
        """The first line of the worker; never waits for its end, which a stuck call can prevent."""
        assert self.process.stdout is not None  # noqa: S101 - opened as a pipe above
        descriptor, data = self.process.stdout.fileno(), b""
        while not data.endswith(b"\n"):
            left = self.deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                self.process.kill()
                return None
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                return data
            data += chunk
        return data

    def _leave(self) -> None:
        """Let go of the worker; one that is stuck in the kernel cannot be waited for."""
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=GRACE_S)

    def _last_line(self) -> str:
        """The last line the worker left on stderr."""
        assert self.process.stderr is not None  # noqa: S101 - opened as a pipe above
        output = self.process.stderr.read().decode(errors="replace").strip().splitlines()
        return output[-1] if output else "it said nothing"

    @staticmethod
    def _nothing(reason: str) -> dict[str, Any]:
        return dict.fromkeys(KEYS, unmeasured(reason))
