"""A reading that is kept until what it depends on changes, for a process that stays."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KEPT_S = 300.0
"""What any reading is kept for at most."""


@dataclass
class KeptReading:
    """*state*: what changes with the reading; where that raises OSError, nothing is kept."""

    read: Callable[[], Any]
    state: Callable[[], Any] = lambda: None
    clock: Callable[[], float] = time.monotonic
    _state: Any = field(default=None, init=False)
    _until: float | None = field(default=None, init=False)
    _value: Any = field(default=None, init=False)

    def get(self, fresh: bool = False) -> Any:
        """The reading, taken now where it may have changed."""
        try:
            # First: what changes while it is read is read again the next time.
            state, now = self.state(), self.clock()
        except OSError:
            self._until = None
            return self.read()
        if fresh or self._until is None or state != self._state or now >= self._until:
            self._value, self._state, self._until = self.read(), state, now + KEPT_S
        return self._value


def changes(paths: Iterable[Path]) -> list[tuple[int, ...] | None]:
    """What differs once one of some files was written or replaced. Raises OSError."""
    found: list[tuple[int, ...] | None] = []
    for path in paths:
        try:
            seen = os.stat(path)
            found.append((seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns))
        except FileNotFoundError:
            found.append(None)
    return found
