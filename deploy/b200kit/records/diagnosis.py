"""From a result and its surroundings to what is probably wrong, as data says. Pure.

catalog/diagnoses.yaml has symptoms and diagnoses. A symptom is an expression over a host's part of
a run's document: a path, a function of paths, or one of these divided by another. A diagnosis fires
when all its conditions hold. Logic has three values: one that is not refuted and whose reading is
unmeasured is "not looked at", never fired and never cleared. Each quotes the values that it was
made from and proposes one change.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from b200kit.catalog import shipped
from b200kit.node.client.percentiles import percentile
from b200kit.node.lib.documents import structure
from b200kit.node.state.clock_reasons import slowed_by
from b200kit.node.state.view import Unmeasured, Unread
from b200kit.records.conditions import reach
from b200kit.run.places import PACKAGE

SCHEMA = "b200kit/diagnosis/1"
_TERM = re.compile(r"([a-z_]+)\(([^()/]+)\)|([^()/]+)")


@dataclass(frozen=True)
class Symptom:
    """A quantity by what a person calls it, the expression it is read by, and its unit."""

    words: str
    read: str
    unit: str = ""

    def __post_init__(self) -> None:
        """Refuse an expression that is none."""
        for term in self.read.split(" / "):
            _parts(term)

    def value(self, host: object) -> float:
        """The number; raises Unread where there is none."""
        above, *below = (self._term(term, host) for term in self.read.split(" / "))
        if below and below[0] <= 0:
            raise Unread(self.words, f"{self.words}: what it is divided by is 0")
        return above / below[0] if below else above

    def _term(self, term: str, host: object) -> float:
        function, paths = _parts(term)
        found = function(*(reach(host, path) for path in paths))
        if isinstance(found, Unmeasured):
            raise Unread(self.words, found.reason)
        if not isinstance(found, int | float):
            raise Unread(self.words, f"the result has no {self.words}")
        return float(found)

    def describe(self, value: float) -> str:
        """The value as evidence quotes it."""
        return f"{self.words} {value:.4g}{self.unit}"


@dataclass(frozen=True)
class Condition:
    """A symptom, *read*, against one limit."""

    read: str
    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None

    def __post_init__(self) -> None:
        """Refuse none and several limits."""
        if len(self._limits) != 1:
            raise ValueError(f"{self.read} has {len(self._limits)} limits; one of {_LIMITS}")

    @property
    def _limits(self) -> dict[str, float]:
        return {name: limit for name in _HOLDS if (limit := getattr(self, name)) is not None}

    def holds(self, value: float) -> bool:
        """Whether a reading meets it."""
        return all(_HOLDS[name](value, limit) for name, limit in self._limits.items())

    def __str__(self) -> str:
        """The limit in words, such as "above 3"."""
        return "".join(f"{n.replace('_', ' ')} {limit:g}" for n, limit in self._limits.items())


_HOLDS: Mapping[str, Callable[[float, float], bool]] = {
    "above": operator.gt, "at_least": operator.ge, "below": operator.lt, "at_most": operator.le,
}  # fmt: skip
_LIMITS = ", ".join(_HOLDS)


@dataclass(frozen=True)
class Rule:
    """One diagnosis: when it fires, what it means, the one change it proposes.

    *unless*: what would explain the same better; where one of these holds the rule does not, and
    where one could not be read that is part of the evidence. *also*: symptoms quoted beside.
    *by_client*: it rests on times that the client took, which a starved client makes worthless.
    *source* says whose knowledge it is.
    """

    symptom: str
    when: tuple[Condition, ...]
    cause: str
    change: str
    source: str
    unless: tuple[Condition, ...] = ()
    by_client: bool = True
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diagnoses:
    """diagnoses.yaml."""

    symptoms: Mapping[str, Symptom]
    diagnoses: Mapping[str, Rule]

    def __post_init__(self) -> None:
        """Refuse a symptom that nobody described."""
        for name, rule in self.diagnoses.items():
            read = {*rule.also, *(one.read for one in (*rule.when, *rule.unless))}
            if unknown := read - self.symptoms.keys():
                raise ValueError(f"diagnoses.{name}: {min(unknown)} is no symptom")


@cache
def load() -> Diagnoses:
    """The diagnoses that come with b200kit."""
    return structure(Diagnoses, shipped.read(PACKAGE / "catalog" / "diagnoses.yaml"))


def diagnose(host: object, known: Diagnoses) -> dict[str, Any]:
    """What fires, what could not be looked at and why, and what was looked at and is not so."""
    read, unread = {}, {}
    for name, symptom in known.symptoms.items():
        try:
            read[name] = symptom.value(host)
        except Unread as error:
            unread[name] = error.reason
    states: dict[str, list[Any]] = {"fired": [], "unlooked": [], "cleared": []}
    for name, rule in known.diagnoses.items():
        if rule.by_client and read.get("client_starved") == 1.0:
            why = "the client starved, so its times are its own"
        elif _refuted(rule.when, read, False) or _refuted(rule.unless, read, True):
            states["cleared"].append(name)
            continue
        else:
            why = next((unread[c.read] for c in rule.when if c.read in unread), "")
        head = {"name": name, "symptom": rule.symptom}
        if why:
            states["unlooked"].append({**head, "why": f"not measured: {why}"})
            continue
        evidence = [*_evidence(rule, known.symptoms, read, unread)]
        because = {"cause": rule.cause, "change": rule.change, "source": rule.source}
        states["fired"].append({**head, "evidence": evidence, **because})
    return {"schema": SCHEMA, **states}


def _refuted(conditions: Sequence[Condition], read: Mapping[str, float], holding: bool) -> bool:
    """Whether one of the conditions is known to hold, or known not to."""
    return any(c.holds(read[c.read]) is holding for c in conditions if c.read in read)


def _evidence(
    rule: Rule,
    symptoms: Mapping[str, Symptom],
    read: Mapping[str, float],
    unread: Mapping[str, str],
) -> Iterator[str]:
    """The values that made the rule fire, those quoted beside, and what could not be ruled out."""
    for condition in rule.when:
        yield f"{symptoms[condition.read].describe(read[condition.read])} ({condition})"
    for name in rule.also:
        if name in read:
            yield symptoms[name].describe(read[name])
    for other in rule.unless:
        if why := unread.get(other.read):
            yield f"not ruled out, {symptoms[other.read].words}: {why}"


def _parts(term: str) -> tuple[Callable[..., object], list[str]]:
    """The function of a term and the paths it is of. Raises ValueError."""
    found = _TERM.fullmatch(term)
    if found is None or (name := found[1] or "first") not in _FUNCTIONS:
        raise ValueError(f"{term!r} is no path and no function of paths")
    return _FUNCTIONS[name], (found[2] or found[3]).split(", ")


# Functions take what stands at their paths, and return a number, None or why there is none.
def _first(*readings: object) -> object:
    """The first reading that is there."""
    return next((reading for reading in readings if reading is not None), None)


def _most(reading: object) -> object:
    """The most of a reading at many places, where all have one."""
    return max(_numbers(reading), default=reading)


def _least(reading: object) -> object:
    """The least of a reading at many places, where all have one."""
    return min(_numbers(reading), default=reading)


def _numbers(reading: object) -> list[float]:
    """Numbers of a list, all or none."""
    found = [one for one in _entries(reading) if isinstance(one, int | float)]
    return found if len(found) == len(_entries(reading)) else []


def _entries(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


_FEWEST = 20
"""Requests without which the first ones cannot be distinguished from the rest."""


def _first_tenth(ttfts: object) -> object:
    """The first tenth's median over that of the second half."""
    found = _numbers(ttfts)
    if len(found) < _FEWEST:
        return Unmeasured("the single TTFTs of enough requests are not in the result")
    usual = percentile(found[len(found) // 2 :], 50)
    return percentile(found[: max(3, len(found) // 10)], 50) / usual if usual > 0 else None


def _beyond_template(rate: object, template: object, prompt: object) -> object:
    """A prefix hit rate less the share that the chat template puts before every prompt."""
    if not isinstance(rate, float) or not isinstance(prompt, float):
        return rate
    own = template / prompt if isinstance(template, float) and prompt > 0 else 0.0
    return max(0.0, rate - own)


def _misplaced(findings: object) -> object:
    """How many placement checks a replica fails."""
    own = [f for f in _entries(findings) if str(reach(f, "check")).startswith("placement.")]
    if failed := sum(reach(f, "status") == "fail" for f in own):
        return failed
    for finding in own:
        if reach(finding, "status") == "unmeasured":
            return Unmeasured(str(reach(finding, "summary")))
    # A pass says that a replica was looked at, or that there was none.
    was_judged = any(
        str(reach(f, "subject")) not in ("node", "")
        or str(reach(f, "summary")).startswith("every process")
        for f in own
    )
    return 0 if was_judged else Unmeasured("no running replica's placement was judged")


def _slowed(during: object, after: object) -> object:
    """How many GPUs were slowed down while the load ran.

    The clocks' event reasons are of one moment: read after the run they can show a slowdown, but
    not that there was none.
    """
    loaded, later = (
        [reach(gpu, "clocks_event_reasons") for gpu in _entries(gpus)] for gpus in (during, after)
    )
    if loaded and all(isinstance(bits, int) for bits in loaded):
        return _count_slow(loaded)
    return _count_slow(later) or Unmeasured("the GPUs' clocks were not read during the run")


def _count_slow(reasons: Sequence[object]) -> int:
    return sum(isinstance(bits, int) and bool(slowed_by(bits)) for bits in reasons)


_FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "first": _first, "max": _most, "min": _least, "first_tenth": _first_tenth,
    "beyond_template": _beyond_template, "misplaced": _misplaced, "slowed": _slowed,
}  # fmt: skip
