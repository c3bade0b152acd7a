"""Reading a run record that may be incomplete, without ever inventing a value.

A record is JSON written by other parts of the toolkit, sometimes by a run that died. Every key is
optional here. What is missing, or was recorded as ``{"unmeasured": reason}``, comes back as an
`Unmeasured` that says why, so that a page or a table can show the reason in place of a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from b200kit.node.lib.documents import Malformed, structure
from b200kit.node.lib.readings import printable
from b200kit.node.state.view import Absent, View
from b200kit.node.state.view import Unmeasured as Unmeasured

T = TypeVar("T")
_Key = TypeVar("_Key", bound=Hashable)
Pairs = list[tuple[str, str]]
"""Rows of a name and its text."""


def read(doc: object, *path: str | int) -> object:
    """Return the value at `path` in `doc`, or `Unmeasured` with the first reason met on the way."""
    value = View(doc).reading(*path)
    if isinstance(value, Absent):
        return Unmeasured("not in the record")
    return Unmeasured(clean(value.reason)) if isinstance(value, Unmeasured) else value


def structured(
    kind: type[T], value: object, otherwise: str = "not in the record"
) -> Unmeasured | T:
    """Return a document of a record, each text on one line; or why there is none."""
    if isinstance(value, Unmeasured) or not value:
        return value if isinstance(value, Unmeasured) else Unmeasured(otherwise)
    try:
        return structure(kind, _cleaned(value))
    except Malformed as error:
        return Unmeasured(clean(str(error)))


def _cleaned(value: object) -> object:
    if isinstance(value, dict):
        return {clean(str(key)): _cleaned(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_cleaned(inner) for inner in value]
    return clean(value) if isinstance(value, str) else value


def unread(value: object, otherwise: str) -> str:
    """Return why `value` was not read, or else, as it is empty, that it is `otherwise`."""
    return str(value) if isinstance(value, Unmeasured) else f"unmeasured: {otherwise}"


def mapping(value: object) -> dict[str, object]:
    """Return `value` as a JSON object, empty when it is anything else."""
    return {str(k): v for k, v in value.items()} if isinstance(value, dict) else {}


def items(value: object) -> list[object]:
    """Return `value` as a JSON array, empty when it is anything else."""
    return list(value) if isinstance(value, list) else []


def number(value: object) -> float | None:
    """Return a finite number, or None for anything else (a bool is not a number here)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def integer(value: object) -> int | None:
    """Return a whole number, or None for anything else."""
    found = number(value)
    return int(found) if found is not None and found == int(found) else None


def clean(text: str) -> str:
    """Return `text` on one line; what could drive a terminal or turn text around is an escape."""
    return printable(" ".join(text.split()))


def grouped(things: Iterable[T], key: Callable[[T], _Key]) -> dict[_Key, list[T]]:
    """Return the things of each key, both in the order in which they come."""
    groups: dict[_Key, list[T]] = {}
    for thing in things:
        groups.setdefault(key(thing), []).append(thing)
    return groups


def counted(value: object, noun: str) -> str:
    """Return a count with its noun, "1 change" or "3 changes"; a count that is none as it is."""
    return f"{show(value)} {noun}{'' if value == 1 else 's'}"


def show(value: object, *, absent: str = "none") -> str:
    """Return a reading as one line of text; `absent` stands for null."""
    if value is None:
        return absent
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(map(show, value)) or "none"
    if isinstance(value, dict):
        return _spread(value) or "; ".join(f"{k}={show(value[k])}" for k in sorted(value)) or "none"
    return clean(str(value))


def _spread(value: dict[str, object]) -> str:
    """ "130 (121 to 142)" of a mean or a median with its range; nothing of another map."""
    middle = number(value.get("mean", value.get("median")))
    low, high = number(value.get("min")), number(value.get("max"))
    if middle is None or low is None or high is None or len(value) > 3:
        return ""
    return f"{middle:.4g}" + (f" ({low:.4g} to {high:.4g})" if low != high else "")


def milliseconds(value: float | None) -> str:
    """Return `value` (ms) with three figures or so: 0.42, 9.83, 41.2, 1873; ``-`` for none."""
    if value is None:
        return "-"
    decimals = 2 if abs(value) < 10 else 1 if abs(value) < 1000 else 0
    return f"{value:.{decimals}f}"


def duration(seconds: float) -> str:
    """Return a span in the two largest units that matter: 0.9 s, 1 m 48 s, 2 h 5 m, 3 d 4 h."""
    if seconds < 60:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    for unit, size, minor, small in (("d", 86400, "h", 3600), ("h", 3600, "m", 60)):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {unit}" + (f" {rest} {minor}" if rest else "")
    return f"{whole // 60} m" + (f" {whole % 60} s" if whole % 60 else "")
