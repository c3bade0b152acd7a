"""The record of a node's runs, as lines of JSON that only ever grow. Pure.

One entry a line: a run with its conditions and figures, a person's acceptance of runs as the
baseline, the golden answers of a node's replicas (golden.py), a person's word that those before it
were wrong, or a comparison of a model in fewer bits with its original (b200kit/quality/kept.py).
JSON lines, not SQLite: a run a day is a few megabytes a year, a whole line is all that must be
safe, and a person can read, grep, diff, copy and version the file. Each entry carries its own
digest and that of the entry before it: a line that a kill tore is distinct from one that was
changed, and neither takes the others with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from b200kit.node.client.percentiles import carries
from b200kit.node.state.path import known_number
from b200kit.records.conditions import missing, value_of
from b200kit.records.metrics import METRICS, REPLICA_METRICS, TAILS, Measured
from b200kit.run import jsonl

SCHEMA = "b200kit/record/1"
_FIGURES = ("p50", "p95", "p99", "mean", "max")
_STORED = ("num_prompts", "completed", "failed", "goodput_share", "late_share", "request_goodput",
         "output_throughput", "gateway_overhead", "server", "verdict", "reasons")  # fmt: skip


_TEXTS: dict[str, type] = dict.fromkeys(("id", "digest", "node", "at", "previous"), str)
_PARTS: dict[str, dict[str, type]] = {
    "run": {"conditions": dict, "figures": dict, "run": str},
    "accept": {"runs": list, "by": str, "why": str},
    "golden": {"answers": list, "key": dict, "replicas": int},
    "quality": {"compared": dict, "key": dict},
    "forget": {"by": str, "why": str},
}


class RecordError(ValueError):
    """What cannot be taken into a record; one line."""


@dataclass(frozen=True)
class Record:
    """A node's record as read: its entries, oldest first, and what is wrong with the file.

    *torn* are lines that a kill cut short: their run is lost, all others stand. *damage* are lines
    that somebody changed or took away.
    """

    entries: tuple[dict[str, Any], ...] = ()
    torn: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()
    last: str = ""
    runs: tuple[dict[str, Any], ...] = field(init=False)

    def __post_init__(self) -> None:
        """Separate the runs from the rest once."""
        found = tuple(entry for entry in self.entries if entry["kind"] == "run")
        object.__setattr__(self, "runs", found)

    @property
    def acceptances(self) -> list[dict[str, Any]]:
        """The acceptances, oldest first."""
        return [entry for entry in self.entries if entry["kind"] == "accept"]

    @property
    def golden(self) -> list[dict[str, Any]]:
        """What replicas said, oldest first, since a person last forgot what was said before."""
        forgotten = [at for at, one in enumerate(self.entries) if one["kind"] == "forget"]
        valid = self.entries[forgotten[-1] + 1 if forgotten else 0 :]
        return [entry for entry in valid if entry["kind"] == "golden"]

    @property
    def forgets(self) -> list[dict[str, Any]]:
        """What a person said of answers that were wrong, oldest first."""
        return [entry for entry in self.entries if entry["kind"] == "forget"]

    def run(self, identity: str) -> dict[str, Any] | None:
        """The run whose id begins so, if there is exactly one."""
        found = [run for run in self.runs if identity and run["id"].startswith(identity)]
        return found[0] if len(found) == 1 else None

    def holds(self, entry: Mapping[str, Any]) -> bool:
        """Whether this very measurement, or this node's same golden answers, is in it already."""
        if entry["kind"] == "golden":
            said = [entry["node"], entry["answers"]]
            return any([one["node"], one["answers"]] == said for one in self.golden)
        return any(_measurement(run) == _measurement(entry) for run in self.runs)


def run_entry(run_conditions: dict[str, Any], smoke: Mapping[str, Any], run: str) -> dict[str, Any]:
    """A run's entry; *run* is the id of the deploy run that measured it.

    Raises RecordError, naming the fields, when the run conditions are not complete enough.
    """
    first, *more = missing(run_conditions) or [""]
    if first:
        rest = f"; and {', '.join(line.split(': ')[0] for line in more)}" if more else ""
        raise RecordError(f"its run conditions have no {first}{rest}")
    figures = {f"{p}_{m}_ms": smoke.get(f"{p}_{m}_ms") for m in METRICS for p in _FIGURES}
    return {
        "schema": SCHEMA,
        "kind": "run",
        "node": value_of(run_conditions, "run.node"),
        "at": value_of(run_conditions, "run.taken_at"),
        "run": run,
        "figures": figures
        | {key: smoke.get(key) for key in _STORED}
        | {"replicas": _replicas(smoke)},
        "conditions": run_conditions,
    }


def _replicas(smoke: Mapping[str, Any]) -> dict[str, dict[str, object]]:
    """The medians of each replica that was asked directly, by path and metric, in ms."""
    paths = smoke.get("paths")
    return {
        name: {metric: summary.get(f"p50_{metric}_ms") for metric in REPLICA_METRICS}
        for name, summary in (paths.items() if isinstance(paths, Mapping) else ())
        if name.startswith("direct") and isinstance(summary, Mapping)
    }


def accept_entry(
    node: str, runs: Sequence[Mapping[str, Any]], by: str, why: str, at: str
) -> dict[str, Any]:
    """A person's word that these runs are how the node should be: who, why, when."""
    if not by.strip() or not why.strip():
        raise RecordError("an acceptance says by whom and why")
    return {
        "schema": SCHEMA,
        "kind": "accept",
        "node": node,
        "at": at,
        "by": by.strip(),
        "why": why.strip(),
        "runs": [run["id"] for run in runs],
    }


def forget_entry(node: str, by: str, why: str, at: str) -> dict[str, Any]:
    """A person's word that the reference, which *node* made, and all said before it is wrong."""
    if not by.strip() or not why.strip():
        raise RecordError("to forget a reference takes by whom and why")
    return {
        "schema": SCHEMA,
        "kind": "forget",
        "node": node,
        "at": at,
        "by": by.strip(),
        "why": why.strip(),
    }


def line(entry: Mapping[str, Any], previous: str) -> str:
    """The line of an entry that follows the one with digest *previous* ("" for the first)."""
    body = {**entry, "previous": previous}
    digest = jsonl.digest(body)
    return json.dumps({"id": digest[:10], **body, "digest": digest}, sort_keys=True) + "\n"


def parse(content: bytes) -> Record:
    """Read a record; whatever the bytes are, nothing is raised and no whole entry is lost."""
    entries: list[dict[str, Any]] = []
    torn, damage, last = [], [], ""
    for position, value in jsonl.lines(content):
        entry = _entry(value)
        if entry is None:
            torn.append(f"line {position} was torn: its content is lost")
            continue
        if entry["digest"] != jsonl.digest(_body(entry)) or entry["id"] != entry["digest"][:10]:
            damage.append(f"line {position} was changed after it was written")
            last = entry["digest"]
            continue
        if entry.get("previous") != last:
            damage.append(f"entries before line {position} were taken away or changed")
        last = entry["digest"]
        entries.append(entry)
    return Record(tuple(entries), tuple(torn), tuple(damage), last)


def _entry(value: dict[str, Any] | None) -> dict[str, Any] | None:
    """An entry with all that makes one, or nothing."""
    kind = value.get("kind") if value else None
    if value is None or not isinstance(kind, str) or kind not in _PARTS:
        return None
    parts = {**_TEXTS, **_PARTS[kind]}
    return value if all(isinstance(value.get(k), t) for k, t in parts.items()) else None


def _body(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in ("id", "digest")}


def _measurement(entry: Mapping[str, Any]) -> tuple[object, ...]:
    """What names a measurement: each one draws a new salt."""
    run_conditions = entry["conditions"]
    return (
        entry["at"],
        value_of(run_conditions, "run.cache_salt"),
        value_of(run_conditions, "run.seed"),
    )


def medians(entry: Mapping[str, Any]) -> dict[str, float]:
    """The run's median of each metric in ms, those that it has."""
    found = {m: known_number(entry, f"figures.p50_{m}_ms") for m in METRICS}
    return {m: value for m, value in found.items() if value and value > 0}


def measured(entry: Mapping[str, Any]) -> Measured:
    """What of the run is compared: medians, the tails that its requests carry, shares, maxima."""
    figures: dict[str, float] = medians(entry)
    n = int(known_number(entry, "figures.completed") or 0)
    percents = [percent for percent in (95, 99) if carries(n, percent)]
    others = {
        **{f"max_{m}": f"max_{m}_ms" for m in METRICS},
        **{t: f"{t}_ms" for t in TAILS if int(t[1:3]) in percents},
        "missed": "goodput_share",
        "late": "late_share",
    }
    for name, key in others.items():
        value = known_number(entry, f"figures.{key}")
        if value is not None:
            figures[name] = 1 - value if name == "missed" else value
    return Measured(str(entry["at"])[:10], figures | _of_replicas(entry))


def _of_replicas(entry: Mapping[str, Any]) -> dict[str, float]:
    """Each replica's median over the median of the others', by "direct-0 tpot": no day is in it."""
    paths = (entry.get("figures") or {}).get("replicas")
    found: dict[str, float] = {}
    for metric in REPLICA_METRICS:
        of = {p: known_number(entry, f"figures.replicas.{p}.{metric}") for p in paths or ()}
        known = {p: value for p, value in of.items() if value and value > 0}
        for path, value in known.items() if len(known) > 1 else ():
            others = median(other for name, other in known.items() if name != path)
            found[f"{path} {metric}"] = value / others
    return found


def counts(entry: Mapping[str, Any]) -> str:
    """Why the run's figures count nowhere, or nothing.

    A client that starved made its own figures, and failed requests have no latency: they flatter.
    """
    figures = entry.get("figures") or {}
    if figures.get("verdict") not in ("pass", "fail"):
        return f"its verdict is {figures.get('verdict')}"
    if figures.get("failed") != 0:
        return f"{figures.get('failed')} of its requests failed"
    return "" if medians(entry) else "it has no medians"
