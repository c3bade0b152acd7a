"""The record in words: newest runs against the baseline, a diagnosis, and the run conditions.

Everything takes the documents that stand in a HostRecord, so that a stored run is shown again as it
was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from b200kit.records.comparison import AgainstRecord, RunSpan
from b200kit.records.conditions import Role, fields, value_of
from b200kit.records.statistics import (
    ASSUMED,
    DAYS,
    METRICS,
    NAMES,
    SHARES,
    Compared,
    Spread,
    change,
)
from b200kit.report.document import (
    Pairs,
    Unmeasured,
    items,
    mapping,
    milliseconds,
    read,
    show,
    structured,
)

WORDS = {"same": "same", "different": "DIFFERENT", "unclear": "CANNOT SAY"}
_TONES = {"same": "good", "different": "bad", "unclear": "unknown"}
HEAD = ["ms", "accepted", "from-to", "CV", "newer", "from-to", "CV", "change", "90 % interval"]
TITLES = {
    Role.IDENTITY: "the run",
    Role.LOAD: "load: the same, or not comparable",
    Role.SYSTEM: "system",
    Role.CONDITION: "conditions",
}
_NOTHING = "unmeasured: there is no result"
_ROWS = {
    "missed": "missed",
    "late": "late",
    **{f"p{q}_{m}": f"{n} {q}" for q in (95, 99) for m, n in METRICS.items()},
}


@dataclass(frozen=True, slots=True)
class RecordHistory:
    """A node's newest runs against its record, as text."""

    word: str
    tone: str
    why: str
    facts: Pairs
    rows: list[list[str]]
    changes: list[str]
    slower: bool


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What fired, what could not be looked at, and how many were looked at and are not so."""

    why: str
    fired: Pairs
    unlooked: Pairs
    cleared: int


def history(found: Unmeasured | AgainstRecord) -> RecordHistory:
    """A comparison, or why there is none.

    A regression is reported even where nothing differs between the run conditions.
    """
    if isinstance(found, Unmeasured):
        return RecordHistory("", "unknown", str(found), [], [], [], slower=False)
    unexplained = ["nothing that the run conditions show"] if found.slower else []
    return RecordHistory(
        word=WORDS[found.outcome],
        tone=_TONES[found.outcome],
        why=found.why,
        facts=list(_facts(found)),
        rows=[_row(metric) for metric in found.metrics],
        changes=[*found.changed] or unexplained,
        slower=bool(found.slower),
    )


def _facts(found: AgainstRecord) -> Iterator[tuple[str, str]]:
    """Who accepted the baseline and what was compared."""
    if by := found.baseline:
        yield "baseline", f"{by.at} by {by.by}: {by.why}"
    for name, span in (("accepted", found.accepted), ("newer", found.newer)):
        if span.count:
            yield name, _span(span)
    if found.uncompared:
        yield "not compared", f"{', '.join(found.uncompared)} (unmeasured on one side)"
    for metric, hint in found.hint.items():
        if not hint.inside:
            ends = f"{milliseconds(hint.low)} to {milliseconds(hint.high)}"
            name = METRICS.get(metric, metric)
            text = f"{name} {milliseconds(hint.value)} ms, the baseline predicts {ends} (99.5 %)"
            yield "newest run", text


def _span(span: RunSpan) -> str:
    first, last = ((at or "")[:16].replace("T", " ") for at in (span.first, span.last))
    alone = f"; that days differ by {ASSUMED:.0%} is assumed" if span.days < DAYS else ""
    runs = f"{span.count} run{'' if span.count == 1 else 's'}"
    return f"{runs}, {first} to {last}, {span.days} day{'' if span.days == 1 else 's'}{alone}"


def _row(metric: Compared) -> list[str]:
    """Both medians of run medians, their spread, the change."""
    name = metric.metric
    interval = " to ".join(change(name, end) for end in metric.interval)
    before, after = (_group(group, name) for group in (metric.before, metric.after))
    row = [_ROWS.get(name, NAMES.get(name, "?")), *before, *after, change(name, metric.ratio)]
    # One unit for both ends: the table is as wide as a terminal.
    return [*row, interval.replace(" % to", " to").replace(" pp to", " to")]


def _group(group: Spread, name: str) -> list[str]:
    if name in SHARES:
        return [f"{group.median:.1%}", f"{group.low:.1%}-{group.high:.1%}", "-"]
    note = " in 2" if group.modes else f" ({group.apart})" if group.apart else ""
    spread = f"{milliseconds(group.low)}-{milliseconds(group.high)}{note}"
    return [milliseconds(group.median), spread, f"{group.cv * 100:.1f} %"]


def record_of(host: object) -> Unmeasured | AgainstRecord:
    """What the record makes of the run of a HostRecord."""
    return structured(AgainstRecord, read(host, "record"), "there is no result")


def history_of(host: object) -> RecordHistory:
    """The section "against the record" of a HostRecord."""
    if "record" not in mapping(host):
        return history(Unmeasured("there is no result"))
    return history(record_of(host))


def word_of(host: object) -> str:
    """What the comparison came to, also of a host in short; empty where it was not made."""
    return WORDS.get(show(read(host, "record", "outcome")), "")


def diagnosis_of(host: object) -> Diagnosis:
    """The section "diagnosis" of a HostRecord."""
    document = read(host, "diagnosis")
    fired = []
    for entry in items(read(document, "fired")):
        evidence = "; ".join(map(show, items(read(entry, "evidence"))))
        symptom, because, todo = (show(read(entry, key)) for key in ("symptom", "cause", "change"))
        fired.append((symptom, f"{evidence}. Cause: {because}. -> {todo}"))
    unlooked = [
        (show(read(entry, "symptom")), show(read(entry, "why")))
        for entry in items(read(document, "unlooked"))
    ]
    why = _NOTHING if isinstance(document, Unmeasured) else ""
    return Diagnosis(why, fired, unlooked, len(items(read(document, "cleared"))))


@dataclass(frozen=True, slots=True)
class ShownConditions:
    """All that decided the figures of a run, by role; `why` is set where nothing is known."""

    why: str = ""
    summary: str = ""
    groups: tuple[tuple[str, Pairs], ...] = ()


def run_conditions_of(found: Unmeasured | AgainstRecord) -> ShownConditions:
    """Return the run conditions in the record of a host."""
    if isinstance(found, Unmeasured):
        return ShownConditions(str(found))
    if (own := found.conditions) is None:
        return ShownConditions("unmeasured: it has no fields")
    values = {field: value_of(own, field.name) for field in fields().values()}
    groups = tuple(
        (title, [(f.words, show(value)) for f, value in values.items() if f.role is role])
        for role, title in TITLES.items()
    )
    blind = sum(isinstance(value, Unmeasured) for value in values.values())
    return ShownConditions("", f"{len(values)} fields, {blind} of them unmeasured", groups)
