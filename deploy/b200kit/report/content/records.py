"""The record in words: runs as a table, one run with its run conditions, a comparison, a diagnosis.

Everything but the tables of whole records takes the documents that stand in a HostRecord, so that
a stored run is shown again as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from b200kit.records.conditions import shown, value_of
from b200kit.records.conditions_fields import FIELDS
from b200kit.records.entries import Record, counts
from b200kit.records.groups import ASSUMED, DAYS
from b200kit.records.metrics import METRICS, NAMES, SHARES, change
from b200kit.report.content.run_conditions import TITLES
from b200kit.report.document import Unmeasured, items, mapping, milliseconds, number, read, show
from b200kit.report.terminal.lines import labelled, shorten, table, wrap

WORDS = {"same": "same", "different": "DIFFERENT", "unclear": "CANNOT SAY"}
TONES = {"same": "good", "different": "bad", "unclear": "unknown"}
HEAD = ["ms", "accepted", "from-to", "CV", "newer", "from-to", "CV", "change", "90 % interval"]
_ROWS = {
    "missed": "missed",
    "late": "late",
    **{f"p{q}_{m}": f"{n} {q}" for q in (95, 99) for m, n in METRICS.items()},
}
_RIGHT = frozenset({2, 3, 4, 5, 6})


def fleet(found: Mapping[str, Record]) -> list[str]:
    """Each node's newest run on a line."""
    head = ["node", "newest run", "runs", *METRICS.values(), "baseline"]
    rows = [head]
    for name, known in found.items():
        last = known.runs[-1] if known.runs else None
        when = str(last["at"])[:16].replace("T", " ") if last else "none"
        accepted = known.acceptances[-1] if known.acceptances else None
        by = f"{str(accepted['at'])[:10]} {accepted['by']}" if accepted else "none accepted"
        rows.append([name, when, str(len(known.runs)), *_medians(last), by])
    return _table(rows)


def runs(known: Record) -> list[str]:
    """Every run on a line, oldest first; a mark for what a run's figures do not count for."""
    accepted = known.acceptances[-1] if known.acceptances else {"runs": []}
    rows = [["run", "taken", "n", *METRICS.values(), ""]]
    for run in known.runs:
        mark = "baseline" if run["id"] in accepted["runs"] else ""
        note = "not counted" if counts(run) else mark
        when = str(run["at"])[:16].replace("T", " ")
        n = show(read(run, "figures", "completed"))
        rows.append([run["id"], when, n, *_medians(run), _stand_in(run, note)])
    notes = [
        f"accepted {entry['at'][:10]} by {entry['by']}: {entry['why']} ({len(entry['runs'])} runs)"
        for entry in known.acceptances
    ]
    reasons = [f"{run['id']} is not counted: {why}" for run in known.runs if (why := counts(run))]
    return [*_table(rows), "median of each run in ms", *reasons, *notes]


def _stand_in(run: Mapping[str, Any], note: str) -> str:
    real = value_of(run["conditions"], "load.stand_in") is not True
    return note if real else f"STAND-IN ENGINE  {note}".rstrip()


def _medians(run: object) -> list[str]:
    found = [number(read(run, "figures", f"p50_{m}_ms")) for m in METRICS]
    return [milliseconds(value) for value in found]


def _table(rows: list[list[str]]) -> list[str]:
    return [line.rstrip() for line in table(rows, left=0, right=_RIGHT)]


def one(run: Mapping[str, Any]) -> Iterator[str]:
    """A run: its figures, then the run conditions by what its fields are for."""
    yield f"run {run['id']} of {run['node']}, {run['at']}, measured by deploy run {run['run']}"
    if counts(run):
        yield from labelled("not counted", counts(run))
    for metric, name in METRICS.items():
        cells = [number(read(run, "figures", f"{p}_{metric}_ms")) for p in ("p50", "p95", "p99")]
        figures = " / ".join(map(milliseconds, cells))
        yield from labelled(name, f"{figures} ms (P50 / P95 / P99)")
    for role, title in TITLES.items():
        yield title
        for field in (field for field in FIELDS if field.role is role):
            yield from _field(field.words, value_of(run["conditions"], field.name))


def _field(words: str, value: object) -> Iterator[str]:
    head = f"  {words:<28}  "
    if isinstance(value, dict) and value:
        pairs = "; ".join(f"{key}={shown(entry)}" for key, entry in sorted(value.items()))
        yield from wrap(head, pairs)
    else:
        yield from wrap(head, shown(value))


def comparison(name: str, document: object) -> Iterator[str]:
    """A node's newest runs against its baseline: the outcome, the figures, what changed."""
    outcome, why = headline(document)
    yield from wrap(f"{name}  {WORDS.get(outcome, 'unmeasured'):<10}  ", why)
    yield from (line for label, text in facts(document) for line in labelled(label, text))
    rows = metric_rows(document)
    if rows:
        yield from table([HEAD, *rows], left=2, right=frozenset({1, 3, 4, 6, 7}))
    yield from (line for text in changes(document) for line in labelled("changed", text))


def headline(document: object) -> tuple[str, str]:
    """The outcome and its reason; a document that says neither is unmeasured."""
    if isinstance(found := read(document, "outcome"), Unmeasured):
        return "", str(found)
    return show(found), show(read(document, "why"))


def facts(document: object) -> list[tuple[str, str]]:
    """Who accepted the baseline and what was compared, as (name, text)."""
    accepted = mapping(read(document, "baseline"))
    acceptance = f"{accepted.get('at')} by {accepted.get('by')}: {accepted.get('why')}"
    found = [("baseline", acceptance)] if accepted else []
    spans = [
        (name, _span(read(document, "runs", key)))
        for name, key in (("accepted", "before"), ("newer", "after"))
    ]
    found += [(name, text) for name, text in spans if text]
    blind = [show(words) for words in items(read(document, "uncompared"))]
    found += [("not compared", f"{', '.join(blind)} (unmeasured on one side)")] if blind else []
    largest = "; ".join(_largest(document))
    found += [("largest", f"{largest} ms (median of the runs' maxima)")] if largest else []
    found += [("newest run", text) for text in _hints(document)]
    return found


def _span(span: object) -> str:
    count, days = number(read(span, "count")) or 0, number(read(span, "days"))
    if not count:
        return ""
    first, last = (show(read(span, key))[:16].replace("T", " ") for key in ("first", "last"))
    text = f"{count:g} runs, {first} to {last}"
    few = days is not None and days < DAYS
    alone = f"; that days differ by {ASSUMED:.0%} is assumed" if few else ""
    return f"{text}, {days or 0:g} day{'' if days == 1 else 's'}{alone}"


def _largest(document: object) -> Iterator[str]:
    for metric, pair in mapping(read(document, "largest")).items():
        ends = [milliseconds(end) for end in map(number, items(pair)) if end is not None]
        yield f"{METRICS.get(metric, metric)} {' -> '.join(ends)}"


def _hints(document: object) -> Iterator[str]:
    """Where the newest run alone lies outside of what the baseline predicts."""
    for metric, hint in mapping(read(document, "hint")).items():
        if read(hint, "inside") is False:
            value, low, high = (number(read(hint, key)) or 0.0 for key in ("value", "low", "high"))
            figures = f"{milliseconds(low)} to {milliseconds(high)}"
            name = METRICS.get(metric, metric)
            yield f"{name} {milliseconds(value)} ms, the baseline predicts {figures} (99 %)"


def metric_rows(document: object) -> list[list[str]]:
    """One row a metric: both medians of run medians, their spread, the change."""
    return [_row(metric) for metric in items(read(document, "metrics"))]


def _row(metric: object) -> list[str]:
    name = show(read(metric, "metric"))
    ends = [number(end) for end in items(read(metric, "interval"))]
    interval = " to ".join(change(name, end) for end in ends if end is not None)
    before, after = (_group(read(metric, key), name) for key in ("before", "after"))
    ratio = number(read(metric, "ratio"))
    changed = "-" if ratio is None else change(name, ratio)
    row = [_ROWS.get(name, NAMES.get(name, "?")), *before, *after, changed]
    # One unit for both ends: the table is as wide as a terminal.
    return [*row, interval.replace(" % to", " to").replace(" pp to", " to")]


def _group(group: object, name: str) -> list[str]:
    low, high, cv, middle = (number(read(group, key)) for key in ("low", "high", "cv", "median"))
    if low is None or high is None or cv is None or middle is None:
        return [show(read(group, "median")), "-", "-"]
    if name in SHARES:
        return [f"{middle:.1%}", f"{low:.1%}-{high:.1%}", "-"]
    apart = number(read(group, "apart")) or 0
    note = " in 2" if items(read(group, "modes")) else f" ({apart:g})" if apart else ""
    spread = f"{milliseconds(low)}-{milliseconds(high)}{note}"
    return [milliseconds(middle), spread, f"{cv * 100:.1f} %"]


def changes(document: object) -> list[str]:
    """What differs between the run conditions; a regression is reported even when nothing does."""
    found = [show(read(change, "text")) for change in items(read(document, "changed"))]
    if not found and items(read(document, "slower")):
        return ["nothing that the run conditions show"]
    return found


def diagnoses(document: object) -> list[tuple[str, str]]:
    """What fired, as (symptom, evidence, cause and the one change in words)."""
    return [
        (show(read(entry, "symptom")), _diagnosis(entry))
        for entry in items(read(document, "fired"))
    ]


def _diagnosis(entry: object) -> str:
    evidence = "; ".join(show(part) for part in items(read(entry, "evidence")))
    return f"{evidence}. Cause: {show(read(entry, 'cause'))}. -> {show(read(entry, 'change'))}"


def unlooked(document: object) -> list[tuple[str, str]]:
    """What could not be looked at, as (symptom, why)."""
    return [
        (show(read(entry, "symptom")), show(read(entry, "why")))
        for entry in items(read(document, "unlooked"))
    ]


def block(host: object) -> Iterator[str]:
    """A host's lines in the terminal: its newest runs against the record, and what is diagnosed."""
    document = read(host, "record")
    if not isinstance(document, Unmeasured) or mapping(host).get("record"):
        outcome, why = headline(document)
        yield from labelled("record", f"{WORDS.get(outcome, '')} {why}".strip())
        slower = bool(items(read(document, "slower")))
        yield from (line for text in changes(document) for line in labelled("", text) if slower)
    for symptom, text in diagnoses(read(host, "diagnosis")):
        yield from labelled("diagnosis", f"{shorten(symptom, 60)}: {text}")
    open_: Sequence[tuple[str, str]] = unlooked(read(host, "diagnosis"))
    if open_:
        names = ", ".join(symptom for symptom, _ in open_)
        yield from labelled("diagnosis", f"not compared: {names}")
