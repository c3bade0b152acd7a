"""Hours of the day in UTC, such as "01:00-05:00": how long they last, and how much of them is left.

An end that is not later than the begin is of the next day; 24:00 is the day's end. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PATTERN = r"([01][0-9]|2[0-3]):[0-5][0-9]-(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)"
_DAY_S = 86_400
_MINUTE = re.compile(r"([0-9][0-9]):([0-9][0-9])")


@dataclass(frozen=True)
class Hours:
    """Both in seconds of the day."""

    begin_s: int
    end_s: int

    @property
    def length_s(self) -> int:
        """Seconds from begin to end; 0 where they are the same moment."""
        return (self.end_s - self.begin_s) % _DAY_S or (_DAY_S if self._is_day else 0)

    @property
    def _is_day(self) -> bool:
        return (self.begin_s, self.end_s) == (0, _DAY_S)

    def left_s(self, wall_s: float) -> float:
        """Seconds that are left of them at a time of day (s since 1970); 0 outside."""
        passed = (wall_s - self.begin_s) % _DAY_S
        return max(0.0, self.length_s - passed)

    @property
    def begin(self) -> str:
        """When they begin, as HH:MM."""
        return f"{self.begin_s // 3600:02d}:{self.begin_s % 3600 // 60:02d}"


def parsed(text: str) -> Hours:
    """Hours from a text as above. Raises ValueError for any other, and for none at all."""
    if not re.fullmatch(PATTERN, text):
        raise ValueError(f'{text!r} are no hours such as "01:00-05:00"')
    begin, end = (3600 * int(h) + 60 * int(m) for h, m in _MINUTE.findall(text))
    found = Hours(begin, end)
    if not found.length_s:
        raise ValueError(f'"{text}" is empty: it ends when it begins')
    return found
