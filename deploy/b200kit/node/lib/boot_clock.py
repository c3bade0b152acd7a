"""A clock that nobody sets: which boot this is, and seconds since it began, those asleep too.

What must end by itself within a boot is counted by it; the time of day may be stepped, by our own
clock stage too.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Moment(NamedTuple):
    """A boot and the seconds since it began."""

    boot_id: str
    seconds: float


def now() -> Moment:
    """This moment. Raises OSError where the kernel does not tell its boot."""
    return Moment(_BOOT_ID.read_text(encoding="ascii").strip(), seconds())


def seconds() -> float:
    """Seconds since this boot began."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
