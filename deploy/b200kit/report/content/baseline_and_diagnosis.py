"""The page's sections about the record and the diagnosis, as text."""

from __future__ import annotations

from dataclasses import dataclass

from b200kit.report.content import records
from b200kit.report.document import Pairs, Unmeasured, items, mapping, read

_NOTHING = "unmeasured: no result to look at"


@dataclass(frozen=True, slots=True)
class History:
    """The node's newest runs against its record, as text."""

    word: str
    tone: str
    why: str
    facts: Pairs
    rows: list[list[str]]
    changes: list[str]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What fired, what could not be looked at, and how many were looked at and are not so."""

    why: str
    fired: Pairs
    unlooked: Pairs
    cleared: int


def history_of(host: object) -> History:
    """The section "against the record" of a HostRecord."""
    document = read(host, "record")
    outcome, why = records.headline(document)
    return History(
        word=records.WORDS.get(outcome, ""),
        tone=records.TONES.get(outcome, "unknown"),
        why=why if "record" in mapping(host) else _NOTHING,
        facts=records.facts(document),
        rows=records.metric_rows(document),
        changes=records.changes(document),
    )


def diagnosis_of(host: object) -> Diagnosis:
    """The section "diagnosis" of a HostRecord."""
    document = read(host, "diagnosis")
    why = _NOTHING if isinstance(document, Unmeasured) else ""
    fired, unlooked = records.diagnoses(document), records.unlooked(document)
    return Diagnosis(why, fired, unlooked, len(items(read(document, "cleared"))))
