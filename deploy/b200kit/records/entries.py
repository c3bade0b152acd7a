"""The record of a node's runs, which only ever grows. Pure.

An entry is a run with its conditions and figures, a person's acceptance of runs as the baseline,
the golden answers of a node's replicas (golden.py), a person's word that those before it were
wrong, or a comparison of a model in fewer bits with its original (b200kit/quality/kept.py).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar, get_args

from b200kit.node.client.golden.answer import Answer
from b200kit.node.client.percentiles import carries
from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.lib import documents
from b200kit.node.lib.documents import NEEDED, structure
from b200kit.records.conditions import RunConditions, missing, value_of
from b200kit.records.statistics import METRICS, RunFigures

T = TypeVar("T", bound="Entry")


class RecordError(ValueError):
    """What cannot be taken into a record; one line."""


@dataclass(frozen=True)
class Entry:
    """What every entry has; its id is of its line in the store, empty until it has one."""

    schema: ClassVar[str] = "b200kit/record/2"
    derived: ClassVar[tuple[str, ...]] = ("kind",)
    kind: ClassVar[str]

    node: str
    at: str
    id: str = field(default="", kw_only=True, metadata=NEEDED)


@dataclass(frozen=True)
class MeasuredRun(Entry):
    """A run; *run* is the id of the deploy run that measured it. smoke: without its series."""

    kind: ClassVar[str] = "run"

    run: str
    smoke: SmokeResult
    conditions: RunConditions


@dataclass(frozen=True)
class Signed(Entry):
    """What a person answers for. Raises RecordError without a name or a reason."""

    by: str
    why: str

    def __post_init__(self) -> None:
        """Refuse what nobody answers for."""
        if not self.by.strip() or not self.why.strip():
            raise RecordError("by whom and why must be said")


@dataclass(frozen=True)
class Acceptance(Signed):
    """A person's word that these runs, by their ids, are how the node should be."""

    kind: ClassVar[str] = "accept"

    runs: tuple[str, ...]


@dataclass(frozen=True)
class GoldenWord(Entry):
    """The word of so many replicas of a node, which answer alike. key: what it holds for."""

    kind: ClassVar[str] = "golden"

    key: Mapping[str, Any]
    replicas: int
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class Forgetting(Signed):
    """A person's word that the reference, which *node* made, and all said before it is wrong."""

    kind: ClassVar[str] = "forget"


@dataclass(frozen=True)
class PrecisionKey:
    """What a comparison of a model in fewer bits holds for."""

    model: str
    revision: str
    engine: str
    lowered: tuple[str, ...]


@dataclass(frozen=True)
class Divergence:
    """Places compared over all prompts, and two figures, each as (least, found, most).

    kl_nats: mean Kullback-Leibler divergence of the candidate from the reference at a place, in
    nats (natural logarithm). flips: share of places where another token is the likeliest. least
    and most are the ends of 95 % intervals.
    """

    prompts: int
    places: int
    kl_nats: tuple[float, float, float]
    flips: tuple[float, float, float]


@dataclass(frozen=True)
class QualityComparison(Entry):
    """A model in fewer bits beside its original. itself: the original, asked twice.

    reference, candidate: what the servers said of themselves.
    """

    kind: ClassVar[str] = "quality"

    key: PrecisionKey
    compared: Divergence
    itself: Divergence
    reference: Mapping[str, str]
    candidate: Mapping[str, str]
    prompts: str
    output_tokens: int
    engine_version: str


AnyEntry = MeasuredRun | Acceptance | GoldenWord | Forgetting | QualityComparison
_KINDS: dict[str, Any] = {one.kind: one for one in get_args(AnyEntry)}


@dataclass(frozen=True)
class Record:
    """A record as read: its entries, oldest first."""

    entries: tuple[AnyEntry, ...] = ()

    @cached_property
    def runs(self) -> tuple[MeasuredRun, ...]:
        """The runs, oldest first."""
        return self.of(MeasuredRun)

    @property
    def golden(self) -> tuple[GoldenWord, ...]:
        """What replicas said, oldest first, since a person last forgot what was said before."""
        forgotten = [at for at, one in enumerate(self.entries) if isinstance(one, Forgetting)]
        return self.of(GoldenWord, forgotten[-1] + 1 if forgotten else 0)

    def of(self, kind: type[T], since: int = 0) -> tuple[T, ...]:
        """The entries of a kind, oldest first."""
        return tuple(one for one in self.entries[since:] if isinstance(one, kind))

    def run(self, identity: str) -> MeasuredRun | None:
        """The run whose id begins so, if there is exactly one."""
        found = [run for run in self.runs if identity and run.id.startswith(identity)]
        return found[0] if len(found) == 1 else None

    def holds(self, entry: AnyEntry) -> bool:
        """Whether this very measurement, or this node's same golden answers, is in it already."""
        if isinstance(entry, GoldenWord):
            said = entry.node, entry.answers
            return any((one.node, one.answers) == said for one in self.golden)
        if not isinstance(entry, MeasuredRun):
            return False
        return any(_measurement(run) == _measurement(entry) for run in self.runs)


def run_entry(run_conditions: RunConditions, smoke: SmokeResult, run: str) -> MeasuredRun:
    """A run's entry.

    Raises RecordError, naming the fields, when the run conditions are not complete enough.
    """
    first, *more = missing(run_conditions) or [""]
    if first:
        rest = f"; and {', '.join(line.split(': ')[0] for line in more)}" if more else ""
        raise RecordError(f"its run conditions have no {first}{rest}")
    return MeasuredRun(
        str(value_of(run_conditions, "run.node")),
        str(value_of(run_conditions, "run.taken_at")),
        run,
        smoke.without_series(),
        run_conditions,
    )


def parse(text: str, digest: str) -> AnyEntry:
    """The entry of a line that this digest names. Raises Malformed."""
    value = documents.decode(documents.Object, text, documents.LARGE)
    entry: AnyEntry = structure(_KINDS.get(str(value.get("kind")), MeasuredRun), value)
    return replace(entry, id=digest[:10])


def digest(value: Mapping[str, Any]) -> str:
    """Names what a reference or a comparison holds for."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _measurement(entry: MeasuredRun) -> tuple[object, ...]:
    """What names a measurement: each one draws a new salt."""
    names = ("run.cache_salt", "run.seed")
    return (entry.at, *(value_of(entry.conditions, name) for name in names))


def medians(entry: MeasuredRun) -> dict[str, float]:
    """The run's median of each metric in ms, those that it has."""
    found = {metric: entry.smoke.main.latency(metric).p50_ms for metric in METRICS}
    return {metric: value for metric, value in found.items() if value}


def measured(entry: MeasuredRun) -> RunFigures:
    """What of the run is compared: medians, the tails that its requests carry, shares."""
    main = entry.smoke.main
    carried = {percent: carries(main.completed, percent) for percent in (95, 99)}
    others = {"missed": 1 - main.goodput_share, "late": main.late_share}
    for metric in METRICS:
        latency = main.latency(metric)
        others[f"p95_{metric}"] = latency.p95_ms if carried[95] else None
        others[f"p99_{metric}"] = latency.p99_ms if carried[99] else None
    known = {name: value for name, value in others.items() if value is not None}
    return RunFigures(entry.at[:10], {**medians(entry), **known})


def counts(entry: MeasuredRun) -> str:
    """Why the run's figures count nowhere, or nothing.

    A client that starved made its own figures, and failed requests have no latency: they flatter.
    """
    if entry.smoke.verdict == "invalid":
        return "its verdict is invalid"
    if failed := entry.smoke.main.failed:
        return f"{failed} of its requests failed"
    return "" if medians(entry) else "it has no medians"
