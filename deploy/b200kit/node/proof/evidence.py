"""One piece of evidence of a proof: what was found, of what, how old it is and how long it holds.

Pure. An age is counted by the boot's clock from the moment at which the evidence was first seen: a
step of the time of day does not extend a proof. But that clock counts no day on which the node was
off, so that by a time of day that is believed nothing is younger than it says of itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

from b200kit.node.lib import timestamp
from b200kit.node.lib.documents import NEEDED, Pattern, Range

PASS, FAIL, UNMEASURED = "pass", "fail", "unmeasured"
KINDS = ("look", "gate", "latency", "answers", "bandwidth")
"""Passive evidence first, which each look renews; then what an active test leaves."""
Seconds = Annotated[float, Range(0, 4e9)]
"""An age, or how long something holds: a century at most, so that each has a date."""


@dataclass(frozen=True)
class Evidence:
    """*result*: pass, fail or unmeasured. *digest*: SHA-256 of the JSON it is from.

    *of*: what it holds for, a boot or a configuration; *at*: when it was taken, UTC.
    *valid_until*: when it ends, as its proof says (document.py); empty until it is in one.
    """

    kind: Annotated[str, Pattern("|".join(KINDS))]
    result: Annotated[str, Pattern(f"{PASS}|{FAIL}|{UNMEASURED}")]
    why: str = ""
    digest: str = ""
    of: str = ""
    at: str = ""
    age_s: Seconds = field(default=0.0, metadata=NEEDED)
    ttl_s: Seconds = field(default=0.0, metadata=NEEDED)
    required: bool = field(default=True, metadata=NEEDED)
    valid_until: str = field(default="", metadata=NEEDED)

    def __post_init__(self) -> None:
        if self.at:
            timestamp.parse(self.at)

    @property
    def left_s(self) -> float:
        """Seconds for which it still proves something; 0 of what is not passed."""
        return max(0.0, self.ttl_s - self.age_s) if self.result == PASS else 0.0

    def older(self, elapsed_s: float) -> Evidence:
        """The same some seconds later."""
        age_s = round(self.age_s + max(0.0, elapsed_s), 1)
        return replace(self, age_s=age_s, valid_until="")

    def by_the_day(self, wall_s: float) -> Evidence:
        """The same by a time of day, seconds since 1970: no younger than that time less `at`."""
        since_s = wall_s - timestamp.parse(self.at).timestamp() if self.at else 0.0
        return replace(self, age_s=max(self.age_s, round(since_s, 1)))


def renewed(known: Evidence | None, elapsed_s: float, found: Evidence) -> Evidence:
    """The evidence of one kind now. *known*: as it was *elapsed_s* seconds ago.

    What could not be measured now takes the place of no measurement: that one runs out by itself.
    What was measured for another boot or configuration proves nothing here.
    """
    if known is None or known.kind != found.kind:
        return found
    kept = replace(known, ttl_s=found.ttl_s, required=found.required).older(elapsed_s)
    if found.digest and found.digest == known.digest:
        held = replace(kept, result=found.result, why=found.why, at=found.at)
        return held if known.of == found.of else _of_other(kept)
    if found.result == UNMEASURED and known.result != UNMEASURED and known.of == found.of:
        return kept
    return found


def _of_other(kept: Evidence) -> Evidence:
    """It keeps what it holds for: back there, it holds again."""
    return replace(kept, result=UNMEASURED, why="it was measured under another configuration")
