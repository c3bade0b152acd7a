"""The conditions of a measured run: all that decided its figures, collected, not typed in. Pure.

Every field of FIELDS is there, as a value or as {"unmeasured": reason}. A result without a value
for a needed field is not stored: it could neither be repeated nor compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from b200kit.node.state.path import reach
from b200kit.node.state.view import Missing, Unmeasured
from b200kit.records.conditions_fields import FIELDS, Field, Role

_ABSENT_IS_A_VALUE = ("state.", "requested.")
_BY_NAME = {field.name: field for field in FIELDS}


@dataclass(frozen=True)
class RunConditions:
    """The value of each of FIELDS by its name, or {"unmeasured": reason}."""

    schema: ClassVar[str] = "b200kit/run-conditions/1"

    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """One field, or one key of it, in which two sets of run conditions differ."""

    words: str
    before: str
    after: str
    role: Role

    def __str__(self) -> str:
        """As a person says it: "driver 580.126.20 -> 580.159.03"."""
        return f"{self.words} {self.before} -> {self.after}"


def build(sources: Mapping[str, Any]) -> RunConditions:
    """The run conditions over *sources* (see FIELDS); never raises, whatever is missing there."""
    return RunConditions({field.name: _value(sources, field) for field in FIELDS})


def _value(sources: Mapping[str, Any], field: Field) -> object:
    value = reach(sources, field.source)
    if isinstance(value, Unmeasured):
        uncollected = isinstance(value, Missing) and field.uncollected
        return {"unmeasured": uncollected or value.reason}
    if value is None and not field.source.startswith(_ABSENT_IS_A_VALUE):
        return {"unmeasured": f"{field.source} has no value"}
    return value


def value_of(run_conditions: RunConditions, name: str) -> object:
    """The value of a field; Unmeasured where there is none."""
    if name not in run_conditions.fields:
        return Unmeasured(f"the run conditions have no {name}")
    return reach(run_conditions.fields[name], "")


def missing(run_conditions: RunConditions) -> list[str]:
    """Needed fields without a value, one line each: a result that has any is not stored."""
    return unmeasured(run_conditions, [field for field in FIELDS if field.needed])


def unmeasured(run_conditions: RunConditions, fields: Iterable[Field] = FIELDS) -> list[str]:
    """Every field without a value, one line each."""
    pairs = ((field, value_of(run_conditions, field.name)) for field in fields)
    return [f"{f.words}: {v.reason}" for f, v in pairs if isinstance(v, Unmeasured)]


def differences(
    before: RunConditions,
    after: RunConditions,
    roles: Iterable[Role] = (Role.SYSTEM, Role.CONDITION),
) -> list[Change]:
    """What differs between two sets of run conditions, causes a person made first."""
    order = list(roles)
    found = [c for f in FIELDS if f.role in order for c in _differences(f, before, after)]
    return sorted(found, key=lambda change: order.index(change.role))


def load_differences(before: RunConditions, after: RunConditions) -> list[Change]:
    """Why two runs cannot be compared: other load. Empty when they can."""
    return differences(before, after, (Role.LOAD,))


def uncompared(before: RunConditions, after: RunConditions) -> list[str]:
    """Fields that may differ unseen, because one of the two runs has no value there."""
    fields = [f for f in FIELDS if f.role in (Role.SYSTEM, Role.CONDITION)]
    return [
        f.words for f in fields if _one_sided(value_of(before, f.name), value_of(after, f.name))
    ]


def _one_sided(before: object, after: object) -> bool:
    return isinstance(before, Unmeasured) != isinstance(after, Unmeasured)


def same(before: RunConditions, after: RunConditions, role: Role) -> bool:
    """Whether two runs agree in all fields of a role, as far as both have them."""
    return not differences(before, after, (role,))


def _differences(field: Field, before: RunConditions, after: RunConditions) -> Iterator[Change]:
    old, new = value_of(before, field.name), value_of(after, field.name)
    if isinstance(old, Unmeasured) or isinstance(new, Unmeasured):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                was, now = (shown(d[key]) if key in d else "not set" for d in (old, new))
                yield Change(f"{field.words} {key}", was, now, field.role)
    elif not _alike(old, new, field.slack):
        yield Change(field.words, *_apart(old, new), field.role)


def _alike(old: object, new: object, slack: float) -> bool:
    """Whether two values are the same but for the slack; lists compare entry by entry."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return all(_alike(a, b, slack) for a, b in zip(old, new, strict=True))
    if isinstance(old, list) is not isinstance(new, list) and slack:
        one, many = (new, old) if isinstance(old, list) else (old, new)
        return isinstance(many, list) and all(_alike(one, entry, slack) for entry in many)
    if slack and _is_number(old) and _is_number(new):
        return abs(float(str(old)) - float(str(new))) <= slack
    return old == new


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _apart(old: object, new: object) -> tuple[str, str]:
    """Two values in words; of long lists only where they differ, by position."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new) > 1:
        at = [i for i, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1]]
        first = at[0]
        more = f" (and {len(at) - 1} more)" if len(at) > 1 else ""
        return f"[{first}] {shown(old[first])}", f"{shown(new[first])}{more}"
    return shown(old), shown(new)


def shown(value: object) -> str:
    """A value on one line, cut to what a line can hold."""
    if isinstance(value, Unmeasured):
        return f"unmeasured: {value.reason}"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def field(name: str) -> Field:
    """The row of a field."""
    return _BY_NAME[name]
