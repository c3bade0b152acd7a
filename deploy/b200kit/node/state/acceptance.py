"""An acceptance run: its plan, one line for each finished segment, and how far it is. Pure.

A run is one folder on the node, `/var/lib/b200kit/acceptance/ID/`:

    plan.json            AcceptancePlan: what is run, on which machine, held to which floors
    lines.jsonl          one SegmentLine a line, in the order they ended; only ever appended to
    raw/NNN-TEST-SEGMENT.{out,err}   what the tool printed, as it was
    verdict.json         a Verdict, computed from the two files before it and from nothing else
    SHA256SUMS           of every other file; SHA256SUMS.sig is the node's signature under it

A line says what was measured and how the tool ended. Whether that is good enough is the verdict's
to say, which anybody who has the folder computes again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from b200kit.node.lib.documents import LARGE, Pattern, Range

Level = Literal["smoke", "standard", "acceptance", "soak"]
"""How much is run: five minutes, half an hour, hours, days."""

Outcome = Literal["done", "failed", "hung", "machinery", "not applicable", "missing"]
"""How a segment ended.

done: the tool ended as it should, its log is whole. failed: the tool itself says that the hardware
is bad. hung: it did not end in its time. machinery: it crashed, or its output cannot be used, which
says nothing of the hardware. not applicable: the tool says that this hardware has no such thing,
which the plan did not know: nothing was measured. missing: there is no such tool.
"""

Fold = Literal["sum", "min", "max", "last"]
"""What the segments of one test come to: events, floors, ceilings, what only the end says."""

Count = Annotated[int, Range(0)]


@dataclass(frozen=True)
class MetricValue:
    """One figure: of which metric, about what ("node", "GPU 3", "GPU 0 to GPU 1", "nvme0n1")."""

    metric: str
    subject: str
    value: float
    unit: str


@dataclass(frozen=True)
class Floor:
    """What a metric is held to: at least, or at most, so much; and where the limit is from.

    `kind`: measured, quoted or inferred, as in the hardware catalogue; a floor of the site's own
    fleet is measured, and its source says of how many.
    """

    value: float
    unit: str
    holds: Literal["at least", "at most"]
    source: str
    date: str
    kind: Literal["measured", "quoted", "inferred"]


@dataclass(frozen=True)
class Step:
    """One segment to run: the words of its command line, and the seconds it may take."""

    number: Count
    test: str
    segment: Count
    argv: tuple[str, ...]
    timeout_s: Annotated[float, Range(0, above=True)]


@dataclass(frozen=True)
class AcceptedMachine:
    """What a result is about: with another one of these, finished segments do not count."""

    product: str
    serial: str
    gpus: tuple[str, ...]
    gpu_serials: tuple[str, ...]
    driver_version: str
    kernel: str


@dataclass(frozen=True)
class Tool:
    """A tool as it was found: where, which bytes, which version it says it has."""

    path: str
    sha256: Annotated[str, Pattern("[0-9a-f]{64}")]
    version: str


@dataclass(frozen=True)
class AcceptancePlan:
    """What a run does: written before its first segment, and not changed afterwards.

    `missing`: tool to the line that brings it. `not_applicable`: test to why.
    """

    schema: ClassVar[str] = "b200kit/acceptance-plan/1"
    most_bytes: ClassVar[int] = 4 << 20

    id: Annotated[str, Pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")]
    node: str
    level: Level
    started_at: str
    machine: AcceptedMachine
    tools: Mapping[str, Tool]
    missing: Mapping[str, str]
    not_applicable: Mapping[str, str]
    floors: Mapping[str, Floor]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class SegmentLine:
    """What came of one segment.

    `attempt`: 1, or more where it was run again to confirm; none replaces another. `before` and
    `after`: hardware counters by name and subject ("ecc_volatile_uncorrected/GPU 3"); what could
    not be read has no key. `raw`: files of the run's folder, with their SHA-256.
    """

    schema: ClassVar[str] = "b200kit/acceptance-line/1"
    most_bytes: ClassVar[int] = LARGE

    step: Count
    test: str
    segment: Count
    attempt: Annotated[int, Range(1)]
    outcome: Outcome
    why: str
    values: tuple[MetricValue, ...]
    before: Mapping[str, int]
    after: Mapping[str, int]
    raw: Mapping[str, str]
    boot_id: str
    began_at: str
    seconds: Annotated[float, Range(0)]


@dataclass(frozen=True)
class AcceptanceState:
    """How far a run is, for whoever waits: `node.pyz acceptance state`.

    `status`: none, running, interrupted (its process is gone before the end), finished (sealed).
    """

    schema: ClassVar[str] = "b200kit/acceptance-state/1"

    id: str
    status: Literal["none", "running", "interrupted", "finished"]
    level: str
    done: Count
    of: Count
    test: str
    segment: Count
    left_s: Annotated[float, Range(0)]
    """Seconds at most until it is finished."""
    last: tuple[str, ...]
    """A line for each finished segment, for people."""
