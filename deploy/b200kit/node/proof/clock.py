"""The time of day held against the clock of the boot, which nobody sets. Pure.

A proof says when it ends by the time of day, and others believe it. Where that was stepped by more
than a limit, nothing is said to be proven until it is back, or has held for a while: a step that
was right is then the time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from b200kit.node.lib.documents import NEEDED


@dataclass(frozen=True)
class Now:
    """This moment: the boot, seconds since it began, and seconds since 1970 by the time of day."""

    boot_id: str
    boot_s: float
    wall_s: float


@dataclass(frozen=True)
class Steps:
    """A step of more than `limit_s` seconds refuses the time of day; `settle_s` later it holds."""

    limit_s: float = 5.0
    settle_s: float = 600.0


@dataclass(frozen=True)
class Clock:
    """`epoch_s`: the time of day at which this boot began, as it was believed last.

    `off_s`: by how much the time of day differs from that; `since_s`: since when, of this boot.
    """

    epoch_s: float
    off_s: float = field(default=0.0, metadata=NEEDED)
    since_s: float | None = field(default=None, metadata=NEEDED)

    @property
    def refused(self) -> str:
        """Why the time of day is not believed; empty where it is."""
        if self.since_s is None:
            return ""
        return f"the time of day was stepped by {self.off_s:+.0f} s"


def held(known: Clock | None, now: Now, steps: Steps) -> Clock:
    """The clock of the same boot a look later. A slow change is a clock that is being corrected."""
    epoch = now.wall_s - now.boot_s
    off = 0.0 if known is None else epoch - known.epoch_s
    if known is None or abs(off) <= steps.limit_s:
        return Clock(round(epoch, 1))
    moved = known.since_s is None or abs(off - known.off_s) > steps.limit_s
    since = now.boot_s if moved or known.since_s is None else known.since_s
    if now.boot_s - since >= steps.settle_s:
        return Clock(round(epoch, 1))
    return Clock(known.epoch_s, round(off, 1), round(since, 1))


def after_boot(last_wall_s: float, now: Now, steps: Steps) -> Clock:
    """The clock of a new boot, whose time of day must be later than the last one before it."""
    off = now.wall_s - last_wall_s
    epoch = now.wall_s - now.boot_s
    if off >= -steps.limit_s:
        return Clock(round(epoch, 1))
    return Clock(round(epoch - off, 1), round(off, 1), round(now.boot_s, 1))
