"""The nodes of a run side by side: what is alike once, a row a node, and how many are proven.

A node of many is kept in short: what stands beside other nodes is computed once, from the whole
record, and every view of a fleet reads it from there.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

from b200kit.report.content import latency, records
from b200kit.report.content.facts import facts_in_short
from b200kit.report.content.verdict import First, first_of, serving_line, verdict_of
from b200kit.report.document import (
    Unmeasured,
    clean,
    counted,
    grouped,
    items,
    mapping,
    milliseconds,
    number,
    read,
)
from b200kit.report.names import METRICS, hostlist
from b200kit.report.outcome import Outcome, hosts_of, is_check, is_good, outcome_of, ranked

MOST = 24
"""Nodes of a run that are shown whole; of more, only such as did not end well."""
MOST_PAGES = 100
"""Nodes of a large run that get a page of their own, which costs as much as judging one."""
LEAST = 2
"""Measured nodes below which there is nothing to hold side by side."""
_SHOWN = ("ttft", "tpot")
HEAD = ("node", "outcome", *(f"{METRICS[key]} P50, ms" for key in _SHOWN), "met the objective",
        "against its record")  # fmt: skip
_ENDED = ("outcome", "stage", "error", "cause", "commands", "changes", "exit_code", "withdrawn")
_OF_PROOF = ("serving", "proven", "served_s", "proven_s", "unread")
_OWN = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes of one outcome and one text, their names as a list that a shell or Slurm expands."""

    outcome: Outcome
    text: str
    members: tuple[str, ...]
    action: str = ""
    serving: str = ""
    figures: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self.members)

    @property
    def names(self) -> str:
        """Who they are."""
        return hostlist(self.members)


def whole(hosts: Mapping[str, object]) -> list[str]:
    """Return the names of the nodes to show whole: of many, one that is not well of each fault."""
    if len(hosts) <= MOST:
        return list(hosts)
    bad = _not_good(hosts)
    firsts = [names[0] for names in grouped(bad, lambda name: _told(bad[name])).values()]
    kinds = grouped(firsts, lambda name: _kind(bad[name]))
    places = {name: place for names in kinds.values() for place, name in enumerate(names)}
    return sorted(firsts, key=lambda name: places[name])[:MOST]


def exceptions(hosts: Mapping[str, object]) -> list[str]:
    """Return the nodes of a large run that did not end well, one of each fault first."""
    if len(hosts) <= MOST:
        return []
    return list(dict.fromkeys([*whole(hosts), *_not_good(hosts)]))[:MOST_PAGES]


def not_good_alike(hosts: Mapping[str, object]) -> Iterator[NodeGroup]:
    """Yield what is wrong, with what to do and who serves, each once."""
    bad = _not_good(hosts)
    groups = grouped(bad, lambda name: _told(bad[name]))
    for (outcome, first), names in groups.items():
        yield NodeGroup(outcome, first.cause, tuple(names), first.action, first.serving)


def good_alike(hosts: Mapping[str, object]) -> Iterator[NodeGroup]:
    """Yield what the nodes that ended well are, each once, with the range of their latencies."""
    good = {name: host for name, host in hosts.items() if is_good(host)}
    groups = grouped(good, lambda name: (outcome_of(good[name]), _facts(good[name])))
    for (outcome, text), names in groups.items():
        figures = tuple(_latencies({name: good[name] for name in names}))
        yield NodeGroup(outcome, text, tuple(names), figures=figures)


def _not_good(hosts: Mapping[str, object]) -> dict[str, object]:
    return {name: host for name, host in hosts.items() if not is_good(host)}


def _told(host: object) -> tuple[Outcome, First]:
    return outcome_of(host), first_of(host)


def _kind(host: object) -> Hashable:
    first = first_of(host)
    check = first.finding.check if first.finding else _OWN.sub("", first.cause)
    return (outcome_of(host).label, check)


def _facts(host: object) -> str:
    waived = verdict_of(host).counts["waived"]
    more = [f"{waived} waived"] * bool(waived) + [latency.STAND_IN] * latency.is_stand_in(host)
    return "; ".join([*facts_in_short(host), *more])


def _median(host: object, metric: str) -> float | None:
    main = latency.main_of(host)
    return None if isinstance(main, Unmeasured) else main.latency(metric).p50_ms


def _latencies(hosts: Mapping[str, object]) -> Iterator[str]:
    """The range of each median over the nodes, and which node is at its ends."""
    for key, name in METRICS.items():
        found = [(v, n) for n, host in hosts.items() if (v := _median(host, key)) is not None]
        if found:
            (low, best), (high, worst) = min(found), max(found)
            unread = f"; unmeasured on {len(hosts) - len(found)}" * (len(found) < len(hosts))
            ends = f"{milliseconds(low)} ({clean(best)}) to {milliseconds(high)} ms"
            yield f"{name} P50 {ends} ({clean(worst)}){unread}"


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node: how it ended, its medians, requests that met the objective, against its record."""

    name: str
    outcome: Outcome
    stand_in: bool
    figures: tuple[str, ...]
    good: str
    record: str


def fleet(record: object) -> list[NodeRow]:
    """Return a row for each node of a run, none where fewer than LEAST were measured."""
    hosts = ranked(record)
    found = {n: [_median(host, key) for key in _SHOWN] for n, host in hosts.items()}
    if sum(any(v is not None for v in row) for row in found.values()) < LEAST:
        return []
    return [
        NodeRow(
            name=clean(name),
            outcome=outcome_of(hosts[name]),
            stand_in=latency.is_stand_in(hosts[name]),
            figures=tuple("unmeasured" if v is None else milliseconds(v) for v in values),
            good=latency.goodput_share(latency.main_of(hosts[name])),
            record=records.word_of(hosts[name]) or "unmeasured",
        )
        for name, values in found.items()
    ]


def proven_of(host: object) -> dict[str, float] | None:
    """GPUs that serve on a node and those of them proven, GPU-seconds likewise; None: not asked.

    The nodes count those themselves (b200kit/node/state/proof.py). Of one that was asked for a
    proof and was not observed nothing is known.
    """
    if known := mapping(read(host, "in_short", "proof")):
        return {key: number(known.get(key)) or 0.0 for key in _OF_PROOF}
    if "proof" not in mapping(read(host, "expectation")):
        return None
    if not mapping(read(host, "state")):
        return dict.fromkeys(_OF_PROOF, 0.0) | {"unread": 1.0}
    placed = mapping(read(host, "expectation", "placement"))
    units = mapping(read(host, "state", "units"))
    # Of a replica of which it is not known whether it runs, too.
    runs = [
        unit
        for unit in map(str, items(read(host, "expectation", "proof", "replicas")))
        if read(units.get(unit), "active") not in ("inactive", "failed")
    ]
    serving = float(sum(len(items(read(placed.get(unit), "gpus"))) for unit in runs))
    found = [f.status == "pass" for f in verdict_of(host).findings if f.check == "proof.valid"]
    counted_s = read(host, "state", "notes", "proof", "gpu_seconds")
    return {
        "serving": serving,
        "proven": serving if found and all(found) else 0.0,
        "served_s": number(read(counted_s, "served")) or 0.0,
        "proven_s": number(read(counted_s, "proven")) or 0.0,
        "unread": 0.0,
    }


def proven(record: object) -> dict[str, float] | None:
    """The same of a whole run; None where no node was asked for a proof."""
    found = [one for one in map(proven_of, hosts_of(record).values()) if one]
    return {key: sum(one[key] for one in found) for key in _OF_PROOF} if found else None


def freshness(record: object) -> str:
    """Proof freshness, the number of a check for its last line; empty where there is none.

    The share of the serving GPUs whose nodes have a valid proof now, and of the GPU-hours that
    these nodes have served since their first proof.
    """
    found = proven(record) if is_check(record) else None
    if found is None or not (found["serving"] or found["unread"]):
        return ""
    now, all_now = found["proven"], found["serving"]
    text = "proof freshness unmeasured"
    if all_now:
        text = f"proof freshness {_percent(now, all_now)} ({now:.0f} of {all_now:.0f} GPUs"
        over = found["served_s"]
        text += f"; {_percent(found['proven_s'], over)} of GPU-hours)" if over else ")"
    unread = int(found["unread"])
    return f"{text}, {counted(unread, 'node')} unread" if unread else text


def _percent(part: float, whole: float) -> str:
    """Rounded down: 100 % is all of it."""
    return f"{int(1000 * part / whole) / 10:g} %"


def in_short(host: object) -> dict[str, object]:
    """A HostRecord without what only its own page and file show; views give the same of both."""
    known, verdict, smoke = mapping(host), read(host, "verdict"), mapping(read(host, "smoke"))
    found = [f for f in items(read(verdict, "findings")) if read(f, "status") != "pass"]
    return {
        **{key: known[key] for key in _ENDED if key in known},
        "verdict": {"fit": read(verdict, "fit"), "findings": found} if mapping(verdict) else None,
        "smoke": {key: smoke[key] for key in ("main", "conditions") if key in smoke},
        "record": {key: read(host, "record", key) for key in ("outcome", "why")},
        "in_short": {
            "facts": facts_in_short(host),
            "serving": serving_line(host),
            "proof": proven_of(host),
        },
    }
