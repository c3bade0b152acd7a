"""Nodes that ended alike, shown once: which of many are shown whole, and the others by kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from b200kit.report.content.facts import facts_in_short
from b200kit.report.content.latency import METRICS, STAND_IN
from b200kit.report.content.verdict import first_of, verdict_of
from b200kit.report.document import clean, milliseconds, number, read
from b200kit.report.names import hostlist
from b200kit.report.outcome import Outcome, is_good, outcome_of

MOST = 24
"""Nodes of a run that are shown whole; of more, only such as did not end well."""
MOST_PAGES = 100
"""Nodes of a large run that get a page of their own, which costs as much as judging one."""
_OWN = re.compile(r"\d+")
_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Alike:
    """Nodes of one outcome and one text, their names as a list that a shell or Slurm expands."""

    outcome: Outcome
    text: str
    count: int
    names: str
    members: tuple[str, ...]
    action: str = ""
    serving: str = ""
    figures: tuple[str, ...] = ()


def whole(hosts: Mapping[str, object]) -> list[str]:
    """Return the names of the nodes to show whole: of many, one that is not well of each fault."""
    if len(hosts) <= MOST:
        return list(hosts)
    bad = {name: host for name, host in hosts.items() if not is_good(host)}
    firsts = [names[0] for names in _together(bad, lambda name: _told(bad[name])).values()]
    kinds = _together(firsts, lambda name: _kind(bad[name]))
    places = {name: place for names in kinds.values() for place, name in enumerate(names)}
    return sorted(firsts, key=lambda name: places[name])[:MOST]


def exceptions(hosts: Mapping[str, object]) -> list[str]:
    """Return the nodes of a large run that did not end well, one of each fault first."""
    if len(hosts) <= MOST:
        return []
    bad = [name for name, host in hosts.items() if not is_good(host)]
    return list(dict.fromkeys([*whole(hosts), *bad]))[:MOST_PAGES]


def _kind(host: object) -> Hashable:
    first = first_of(host)
    check = first.finding.check if first.finding else _OWN.sub("", first.cause)
    return (outcome_of(host).label, check)


def not_good_alike(hosts: Mapping[str, object]) -> Iterator[Alike]:
    """Yield what is wrong, with what to do and who serves, each once."""
    bad = {name: host for name, host in hosts.items() if not is_good(host)}
    groups = _together(bad, lambda name: _told(bad[name]))
    for (outcome, cause, action, serving), names in groups.items():
        yield Alike(outcome, cause, len(names), hostlist(names), tuple(names), action, serving)


def _told(host: object) -> tuple[Outcome, str, str, str]:
    first = first_of(host)
    return (outcome_of(host), first.cause, first.action, first.serving)


def good_alike(hosts: Mapping[str, object]) -> Iterator[Alike]:
    """Yield what the nodes that ended well are, each once, with the range of their latencies."""
    good = {name: host for name, host in hosts.items() if is_good(host)}
    groups = _together(good, lambda name: (outcome_of(good[name]), _facts(good[name])))
    for (outcome, text), names in groups.items():
        figures = tuple(_latencies({name: good[name] for name in names}))
        yield Alike(outcome, text, len(names), hostlist(names), tuple(names), figures=figures)


def _together(names: Iterable[str], key: Callable[[str], _Key]) -> dict[_Key, list[str]]:
    groups: dict[_Key, list[str]] = {}
    for name in names:
        groups.setdefault(key(name), []).append(name)
    return groups


def _facts(host: object) -> str:
    waived = verdict_of(host).counts["waived"]
    stand_in = read(host, "smoke", "conditions", "stand_in") is True
    more = [f"{waived} waived"] * bool(waived) + [STAND_IN] * stand_in
    return "; ".join([*facts_in_short(host), *more])


def _latencies(hosts: Mapping[str, object]) -> Iterator[str]:
    """The range of each median over the nodes, and which node is at its ends."""
    for key, name in METRICS.items():
        medians = {n: number(read(host, "smoke", f"p50_{key}_ms")) for n, host in hosts.items()}
        found = [(value, n) for n, value in medians.items() if value is not None]
        if found:
            (low, best), (high, worst) = min(found), max(found)
            unread = f"; unmeasured on {len(hosts) - len(found)}" * (len(found) < len(hosts))
            ends = f"{milliseconds(low)} ({clean(best)}) to {milliseconds(high)} ms"
            yield f"{name} P50 {ends} ({clean(worst)}){unread}"
