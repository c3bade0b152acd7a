"""How far a fetch is: counted by its threads, reported in the journal, kept in a file for others.

    {"state": "checking" | "fetching" | "complete" | "failed" | "refused",
     "revision": "0123...cdef", "total_bytes", "have_bytes", "received_bytes",
     "rate": bytes/s, "files", "files_done", "error": null | "...", "pid": 812,
     "at": "2026-11-21T18:00:00Z"}

"checking" lasts until the first byte: a source that refuses has been asked by then. "refused" is
what no other try can repair; "failed" may be repaired by one.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from b200kit.node.lib import durable_files, timestamp
from b200kit.node.weights.manifest import size_text

STATUS = Path("/run/b200-weights/status.json")
WINDOW_S = 10.0
_BEAT_S = 1.0
_LINE_S = 10.0


class Progress:
    """Counters of one fetch; every method may be called from any thread."""

    def __init__(self, revision: str, status: Path | None = None) -> None:
        self.revision, self._status = revision, status
        self.total = self.have = self.received = self.files = self.done = 0
        self._lock = threading.Lock()
        self._answered, self._ended = threading.Event(), threading.Event()
        self._marks: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])
        self._beat = threading.Thread(target=self._tell, daemon=True)

    def expect(self, total: int, have: int, files: int, done: int) -> None:
        """What there is to do, known once the manifest is; reports from now on."""
        self.total, self.have, self.files, self.done = total, have, files, done
        self.write("checking")
        self._beat.start()

    def arrived(self, count: int) -> None:
        """Bytes came; a negative count takes back those that were thrown away."""
        with self._lock:
            self.have += count
            self.received += max(count, 0)
        self._answered.set()

    def finished(self) -> None:
        """One more file is in place."""
        with self._lock:
            self.done += 1

    def end(self, state: str, error: str | None = None) -> None:
        """The last word."""
        self._ended.set()
        self._answered.set()
        if self._beat.is_alive():
            self._beat.join()
        self.write(state, error)

    def rate(self) -> float:
        """Bytes a second over the last ten seconds."""
        (began, then), (ended, now) = self._marks[0], self._marks[-1]
        return (now - then) / (ended - began) if ended > began else 0.0

    def write(self, state: str, error: str | None = None) -> None:
        """Leave the status for whoever watches; one that cannot be left stops nothing."""
        if self._status is None:
            return
        try:
            durable_files.replace(self._status, json.dumps(self._document(state, error)))
        except OSError as problem:
            print(f"status not kept: {problem}", file=sys.stderr, flush=True)

    def _document(self, state: str, error: str | None) -> dict[str, Any]:
        return {
            "state": state,
            "revision": self.revision,
            "total_bytes": self.total,
            "have_bytes": self.have,
            "received_bytes": self.received,
            "rate": round(self.rate()),
            "files": self.files,
            "files_done": self.done,
            "error": error,
            "pid": os.getpid(),
            "at": timestamp.now(),
        }

    def line(self) -> str:
        """One line for a person: bytes, share, rate, files."""
        share = 100 * self.have // self.total if self.total else 100
        return (
            f"{size_text(self.have)} of {size_text(self.total)}, {share} %, "
            f"{size_text(round(self.rate()))}/s, "
            f"{self.done} of {self.files} files"
        )

    def _tell(self) -> None:
        self._answered.wait()
        next_line = time.monotonic() + _LINE_S
        while not self._ended.is_set():
            now = time.monotonic()
            self._marks.append((now, self.received))
            while now - self._marks[0][0] > WINDOW_S:
                self._marks.popleft()
            self.write("fetching")
            if now >= next_line:
                print(self.line(), flush=True)
                next_line = now + _LINE_S
            self._ended.wait(_BEAT_S)
