"""The conditions of a measured run: all that decided its figures, collected, not typed in. Pure.

catalog/run-conditions.yaml has the fields, by what a difference means. Each is there as a value or
as {"unmeasured": reason}. A result without a value for a needed field is not stored: it could
neither be repeated nor compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar

from b200kit.catalog import shipped
from b200kit.node.client.smoke_result import GpuFigures, SmokeResult
from b200kit.node.lib.documents import structure
from b200kit.node.state.clock_reasons import told_by
from b200kit.node.state.view import Unmeasured, View
from b200kit.run.places import PACKAGE


class Role(StrEnum):
    """What a difference in a field means for two runs."""

    IDENTITY = "identity"
    """Another run, nothing else: date, seed, counts. Never compared."""
    LOAD = "load"
    """What was requested of the server. Runs that differ here are not comparable."""
    SYSTEM = "system"
    """What a person changed or a machine is: the causes to name first."""
    CONDITION = "condition"
    """What was so at that hour: the causes to name after them."""


@dataclass(frozen=True)
class Field:
    """One field, and the path that it is read from. *slack*: numbers that differ by no more are the
    same (in the field's unit). *needed*: a result without it is not stored.
    """

    name: str
    role: Role
    words: str
    read: str
    needed: bool = False
    slack: float = 0.0


@cache
def fields() -> Mapping[str, Field]:
    """Every field by its name, of catalog/run-conditions.yaml."""
    table = shipped.read(PACKAGE / "catalog" / "run-conditions.yaml")
    return {
        name: structure(Field, {"name": name, "role": role, **row})
        for role, rows in table.items()
        for name, row in rows.items()
    }


_ABSENT_IS_A_VALUE = ("state.", "requested.")
_INDEX = re.compile("-?[0-9]+")


@dataclass(frozen=True)
class RunConditions:
    """The value of each field by its name, or {"unmeasured": reason}."""

    schema: ClassVar[str] = "b200kit/run-conditions/1"

    fields: Mapping[str, Any]


@dataclass(frozen=True)
class ConditionChange:
    """One field, or one key of it, in which two sets of run conditions differ."""

    words: str
    before: str
    after: str
    role: Role

    def __str__(self) -> str:
        """As a person says it: "driver 580.126.20 -> 580.159.03"."""
        return f"{self.words} {self.before} -> {self.after}"


def reach(document: object, path: str) -> object:
    """The value at a dotted path; Unmeasured with the first reason met on the way.

    "state.gpus.*.vbios" is what every GPU says: the one value when all say the same, else all.
    "by_tp.-1" is the last entry.
    """
    head, star, rest = path.partition("*")
    keys = (int(key) if _INDEX.fullmatch(key) else key for key in head.split(".") if key)
    value = View(document).reading(*keys)
    if not star or isinstance(value, Unmeasured):
        return value
    return _shared(_entries(value), rest, head.strip("."))


def _entries(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _shared(entries: list[object], rest: str, where: str) -> object:
    """What all entries say, once when it is the same."""
    found = [reach(entry, rest.strip(".")) for entry in entries]
    if not found:
        return Unmeasured(f"{where} has no entry")
    reason = next((value for value in found if isinstance(value, Unmeasured)), None)
    if reason:
        return reason
    return found[0] if all(value == found[0] for value in found) else found


def build(sources: Mapping[str, Any]) -> RunConditions:
    """The run conditions over *sources*; never raises, whatever is missing there."""
    return RunConditions({field.name: _value(sources, field) for field in fields().values()})


def _value(sources: Mapping[str, Any], field: Field) -> object:
    value = reach(sources, field.read)
    if isinstance(value, Unmeasured):
        return {"unmeasured": value.reason}
    if value is None and not field.read.startswith(_ABSENT_IS_A_VALUE):
        return {"unmeasured": f"{field.read} has no value"}
    return value


def value_of(run_conditions: RunConditions, name: str) -> object:
    """The value of a field; Unmeasured where there is none."""
    if name not in run_conditions.fields:
        return Unmeasured(f"the run conditions have no {name}")
    return reach(run_conditions.fields[name], "")


def missing(run_conditions: RunConditions, *, needed: bool = True) -> list[str]:
    """Fields without a value, of those needed or of all, a line each.

    A result that lacks a needed one is not stored.
    """
    pairs = (
        (field, value_of(run_conditions, name))
        for name, field in fields().items()
        if field.needed or not needed
    )
    return [f"{field.words}: {v.reason}" for field, v in pairs if isinstance(v, Unmeasured)]


def differences(
    before: RunConditions,
    after: RunConditions,
    roles: Iterable[Role] = (Role.SYSTEM, Role.CONDITION),
) -> list[ConditionChange]:
    """What differs between two sets of run conditions, causes a person made first."""
    order = list(roles)
    found = [
        c for f in fields().values() if f.role in order for c in _differences(f, before, after)
    ]
    return sorted(found, key=lambda change: order.index(change.role))


def uncompared(before: RunConditions, after: RunConditions) -> list[str]:
    """Fields that may differ unseen, because one of the two runs has no value there."""
    known = {
        name: [isinstance(value_of(run, name), Unmeasured) for run in (before, after)]
        for name, field in fields().items()
        if field.role in (Role.SYSTEM, Role.CONDITION)
    }
    return [fields()[name].words for name, (was, now) in known.items() if was != now]


def _differences(
    field: Field, before: RunConditions, after: RunConditions
) -> Iterator[ConditionChange]:
    old, new = value_of(before, field.name), value_of(after, field.name)
    if isinstance(old, Unmeasured) or isinstance(new, Unmeasured):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                was, now = (shown(d[key]) if key in d else "not set" for d in (old, new))
                yield ConditionChange(f"{field.words} {key}", was, now, field.role)
    elif not _alike(old, new, field.slack):
        yield ConditionChange(field.words, *_apart(old, new), field.role)


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


_LIBRARIES = ("torch", "nccl", "flashinfer", "cuda")
_UNKNOWN = "neither the running servers nor the engine's lock file name it"


def observed(state: object, smoke: SmokeResult | None, lock: object = None) -> dict[str, Any]:
    """What held during the run. *lock*: the libraries that the engine's lock file names.

    Warm-up rounds, where the replicas' memory is from, Xid codes, the libraries of
    the running servers, the GPUs that something slowed down.
    """
    return {
        "warm_rounds": _rounds(reach(state, "notes.warm")),
        "bound_nodes": _bound(reach(state, "processes")),
        "xids": _codes(reach(state, "xids")),
        "libraries": {
            **{name: {"unmeasured": _UNKNOWN} for name in _LIBRARIES},
            **_mapping(lock),
            **_mapping(smoke and smoke.conditions.libraries),
        },
        "slowed": _slowed(smoke.gpus if smoke else ()),
    }


def _mapping(libraries: object) -> dict[str, object]:
    """Versions by name; none where they are unmeasured."""
    found = libraries if isinstance(libraries, Mapping) else {}
    return {name: version for name, version in found.items() if name != "unmeasured"}


def _slowed(gpus: Unmeasured | Sequence[GpuFigures]) -> object:
    """GPU to what slowed it while the load ran; "none" where nothing did."""
    if isinstance(gpus, Unmeasured) or not gpus:
        return _why(gpus, "the GPUs were not read during the run")
    found = {}
    for gpu in gpus:
        if isinstance(reasons := gpu.clocks_event_reasons, Unmeasured):
            return _why(reasons, "")
        if told := told_by(reasons):
            found[f"GPU {gpu.index}"] = ", ".join(told)
    return found or "none"


def _rounds(warm: object) -> object:
    """The most rounds that any replica took."""
    if not isinstance(warm, Mapping) or not warm:
        return _why(warm, "no replica left a warm-up's record")
    counts = [_count(reach(entry, "rounds")) for entry in warm.values()]
    known = [count for count in counts if count is not None]
    return max(known) if len(known) == len(counts) else _why(None, "a warm-up names no rounds")


def _count(rounds: object) -> int | None:
    return len(rounds) if isinstance(rounds, list) else None


def _bound(processes: object) -> object:
    """Unit to the NUMA nodes that its processes are bound to, "" where to none."""
    if not isinstance(processes, list) or not processes:
        return _why(processes, "no process of a replica was observed")
    found: dict[str, set[str]] = {}
    for process in processes:
        unit, nodes = reach(process, "unit"), reach(process, "numa_maps_bound")
        if not isinstance(unit, str) or not isinstance(nodes, str):
            return _why(nodes, "a process's memory policy was not read")
        found.setdefault(unit, set()).add(nodes)
    return {unit: ",".join(sorted(filter(None, nodes))) for unit, nodes in sorted(found.items())}


def _codes(xids: object) -> object:
    """The Xid codes of this boot, each once."""
    if not isinstance(xids, list):
        return _why(xids, "no Xid was read")
    codes = {code for entry in xids if isinstance(code := reach(entry, "code"), int)}
    return sorted(codes)


def _why(value: object, otherwise: str) -> dict[str, str]:
    return {"unmeasured": value.reason if isinstance(value, Unmeasured) else otherwise}
