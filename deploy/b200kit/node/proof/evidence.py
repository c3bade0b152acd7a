"""One piece of evidence of a proof: what was found, of what, how old it is and how long it holds.

Pure. An age is counted by the boot's clock from the moment at which the evidence was first seen: a
step of the time of day neither extends a proof nor ends one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

PASS, FAIL, UNMEASURED = "pass", "fail", "unmeasured"
KINDS = ("look", "gate", "latency", "answers", "bandwidth")
"""Passive evidence first, which each look renews; then what an active test leaves."""


@dataclass(frozen=True)
class Evidence:
    """*result*: pass, fail or unmeasured. *digest*: SHA-256 of the JSON it is from.

    *of*: what it holds for, a boot or a configuration; *at*: when it was taken, UTC.
    """

    kind: str
    result: str
    why: str = ""
    digest: str = ""
    of: str = ""
    at: str = ""
    age_s: float = 0.0
    ttl_s: float = 0.0
    required: bool = True

    @property
    def left_s(self) -> float:
        """Seconds for which it still proves something; 0 of what is not passed."""
        return max(0.0, self.ttl_s - self.age_s) if self.result == PASS else 0.0

    def older(self, elapsed_s: float) -> Evidence:
        """The same some seconds later."""
        return replace(self, age_s=self.age_s + max(0.0, elapsed_s))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, but for when it ends, which is a matter of the time of day."""
        return {**asdict(self), "age_s": round(self.age_s, 1)}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Evidence:
        """One read back. Raises KeyError, TypeError or ValueError where it is malformed."""
        texts = {key: str(entry[key]) for key in ("kind", "why", "digest", "of", "at")}
        result = str(entry["result"])
        if result not in (PASS, FAIL, UNMEASURED):
            raise ValueError(f"{result!r} is no result")
        age_s, ttl_s = float(entry["age_s"]), float(entry["ttl_s"])
        return cls(
            **texts,
            result=result,
            age_s=age_s,
            ttl_s=ttl_s,
            required=entry["required"] is not False,
        )


def renewed(known: Evidence | None, elapsed_s: float, found: Evidence) -> Evidence:
    """The evidence of one kind now. *known*: as it was *elapsed_s* seconds ago.

    What could not be measured now takes the place of no measurement: that one runs out by itself.
    What was measured for another boot or configuration proves nothing here.
    """
    if known is None or known.kind != found.kind:
        return found
    kept = replace(known, ttl_s=found.ttl_s, required=found.required).older(elapsed_s)
    if found.digest and found.digest == known.digest:
        held = replace(kept, result=found.result, why=found.why)
        return held if known.of == found.of else _of_other(kept)
    if found.result == UNMEASURED and known.result != UNMEASURED and known.of == found.of:
        return kept
    return found


def _of_other(kept: Evidence) -> Evidence:
    """It keeps what it holds for: back there, it holds again."""
    return replace(kept, result=UNMEASURED, why="it was measured under another configuration")
