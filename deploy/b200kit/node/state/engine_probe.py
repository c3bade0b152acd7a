"""What the probe of an engine's sandbox finds, as one document a replica. Pure.

The launcher of a replica runs the probe in each start, before the engine. Its document names the
invocation of the unit that it belongs to: of another start it says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

SCHEMA = "b200kit/engine-probe/1"
FAILED = 79
"""The launcher's exit code where the probe found a fault, which another start will find again."""
NAME = "probe.json"
DIRECTORY = "/var/cache/vllm"
"""It has a directory for each replica, which the replica's own user may write."""


class ProbeVerdict(str, Enum):
    """What came of a step."""

    PASSED = "passed"
    FAILED = "failed"
    # The engine does not need it: what only CUDA has, on CPUs.
    NOT_APPLICABLE = "not applicable"
    # An earlier step failed.
    NOT_REACHED = "not reached"


@dataclass(frozen=True)
class ProbedStep:
    """One step: what was seen, and what to do where it failed."""

    name: str
    result: ProbeVerdict
    seen: str = ""
    remedy: str = ""
    took_s: float = 0.0

    @property
    def line(self) -> str:
        """Step, what was seen, what to do."""
        return f"{self.name}: {self.seen}; {self.remedy}"


def document(
    invocation: str, kind: str, taken_at: str, outcomes: Sequence[ProbedStep]
) -> dict[str, Any]:
    """Plain JSON. Without an invocation it belongs to no start of a unit."""
    return {
        "schema": SCHEMA,
        "invocation": invocation or None,
        "kind": kind,
        "taken_at": taken_at,
        "took_s": round(sum(outcome.took_s for outcome in outcomes), 3),
        "steps": [{**asdict(one), "result": one.result.value} for one in outcomes],
    }


def failure(outcomes: Sequence[ProbedStep]) -> ProbedStep | None:
    """The step that failed."""
    return next((one for one in outcomes if one.result is ProbeVerdict.FAILED), None)
