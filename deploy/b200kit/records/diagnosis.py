"""From a result and its surroundings to what is probably wrong, as data says. Pure.

A rule (b200kit/catalog/diagnoses.yaml) fires when all its conditions hold. Logic has three values:
a condition whose reading is unmeasured makes a rule that is not refuted "not looked at", never
fired and never cleared. Each diagnosis quotes the values that it was made from and proposes one
change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from b200kit.node.state.view import Unread
from b200kit.records.symptoms import SYMPTOMS

SCHEMA = "b200kit/diagnosis/1"
_LIMITS = ("above", "at_least", "below", "at_most")


class RuleError(ValueError):
    """A rule that cannot be used, in one line with its name."""


@dataclass(frozen=True)
class Condition:
    """A symptom against a limit, such as above 3."""

    symptom: str
    limit: str
    threshold: float

    def holds(self, value: float) -> bool:
        """Whether a reading meets it."""
        return {
            "above": value > self.threshold,
            "at_least": value >= self.threshold,
            "below": value < self.threshold,
            "at_most": value <= self.threshold,
        }[self.limit]

    def describe(self, value: float) -> str:
        """The evidence: the value that was read and the limit it was compared with."""
        limit = f"{self.limit.replace('_', ' ')} {self.threshold:g}"
        return f"{SYMPTOMS[self.symptom].describe(value)} ({limit})"


@dataclass(frozen=True)
class Rule:
    """One diagnosis: when it fires, what it means, the one change it proposes.

    *unless*: what would explain the same better; where one of these holds the rule does not, and
    where one could not be read that is part of the evidence. *also*: symptoms quoted beside.
    *by_client*: it rests on times that the client took, which a starved client makes worthless.
    *source* says whose knowledge it is.
    """

    name: str
    symptom: str
    when: tuple[Condition, ...]
    cause: str
    change: str
    source: str
    unless: tuple[Condition, ...] = ()
    by_client: bool = True
    also: tuple[str, ...] = ()


def rules(document: Mapping[str, Any]) -> tuple[Rule, ...]:
    """The rules of a parsed diagnoses.yaml. Raises RuleError for one that cannot be used."""
    found = []
    for name, row in document["diagnoses"].items():
        try:
            found.append(_rule(name, row))
        except (KeyError, TypeError, ValueError) as error:
            raise RuleError(f"diagnosis {name}: {type(error).__name__}: {error}") from None
    return tuple(found)


def _rule(name: str, row: Mapping[str, Any]) -> Rule:
    return Rule(
        name=name,
        symptom=row["symptom"],
        when=tuple(_condition(entry) for entry in row["when"]),
        cause=row["cause"],
        change=row["change"],
        source=row["source"],
        unless=tuple(_condition(entry) for entry in row.get("unless", ())),
        by_client=row.get("by_client", True),
        also=tuple(row.get("also", ())),
    )


def _condition(entry: Mapping[str, Any]) -> Condition:
    limits = [key for key in entry if key in _LIMITS]
    if len(limits) != 1 or {*entry} != {"read", *limits}:
        raise ValueError(f"a condition has `read` and one of {', '.join(_LIMITS)}")
    if entry["read"] not in SYMPTOMS:
        raise ValueError(f"{entry['read']} is no symptom")
    return Condition(entry["read"], limits[0], float(entry[limits[0]]))


def diagnose(document: object, known: Sequence[Rule]) -> dict[str, Any]:
    """What fires, what could not be looked at and why, and what was looked at and is not so."""
    read, unread = {}, {}
    for name, symptom in SYMPTOMS.items():
        try:
            read[name] = symptom.read(document)
        except Unread as error:
            unread[name] = error.reason
    states: dict[str, list[Any]] = {"fired": [], "unlooked": [], "cleared": []}
    for rule in known:
        state, entry = _applied(rule, read, unread)
        states[state].append(entry)
    return {"schema": SCHEMA, **states}


def _applied(
    rule: Rule, read: Mapping[str, float], unread: Mapping[str, str]
) -> tuple[str, object]:
    """Where a rule belongs, and what is reported of it there; *unread* says why by symptom."""
    if rule.by_client and read.get("client_starved") == 1.0:
        return "unlooked", _unlooked(rule, "the client starved, so its times are its own")
    if _refuted(rule.when, read, False) or _refuted(rule.unless, read, True):
        return "cleared", rule.name
    reasons = [unread[c.symptom] for c in rule.when if c.symptom in unread]
    if reasons:
        return "unlooked", _unlooked(rule, reasons[0])
    return "fired", {
        "name": rule.name,
        "symptom": rule.symptom,
        "evidence": list(_evidence(rule, read, unread)),
        "cause": rule.cause,
        "change": rule.change,
        "source": rule.source,
    }


def _refuted(conditions: Sequence[Condition], read: Mapping[str, float], holding: bool) -> bool:
    """Whether one of the conditions is known to hold, or known not to."""
    return any(c.holds(read[c.symptom]) is holding for c in conditions if c.symptom in read)


def _evidence(rule: Rule, read: Mapping[str, float], unread: Mapping[str, str]) -> Iterator[str]:
    """The values that made the rule fire, those quoted beside, and what could not be ruled out."""
    for condition in rule.when:
        yield condition.describe(read[condition.symptom])
    for name in rule.also:
        if name in read:
            yield SYMPTOMS[name].describe(read[name])
    for other in rule.unless:
        if why := unread.get(other.symptom):
            yield f"not ruled out, {SYMPTOMS[other.symptom].words}: {why}"


def _unlooked(rule: Rule, why: str) -> dict[str, str]:
    return {"name": rule.name, "symptom": rule.symptom, "why": f"could not look: {why}"}
