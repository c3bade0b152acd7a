"""Typed inventory keys: each is a dataclass field that carries its parser and its documentation.

One declaration serves validation, defaults, the did-you-mean of a misspelt key, and
docs/inventory.md. Parsers take the raw value and return the typed one, or raise ValueError saying
what is wanted.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, TypeVar

Parser = Callable[[object], object]
T = TypeVar("T")


@dataclass(frozen=True)
class Problem:
    """One refusal: the dotted *key* it concerns and a *message* that says what is wanted."""

    key: str
    message: str


def setting(parse: Parser, doc: str, default: Any = MISSING) -> Any:
    """Declare an inventory key; without *default* it is required."""
    metadata = {"parse": parse, "doc": doc}
    if default is MISSING:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


def parse_mapping(cls: type[T], raw: Mapping[str, object], prefix: str = "") -> T | list[Problem]:
    """Parse *raw* into the dataclass *cls*, or return every problem found in it."""
    known = {item.name: item for item in dataclasses.fields(cls)}  # type: ignore[arg-type]
    problems = list(_unknown(raw, known, prefix))
    values: dict[str, object] = {}
    for name, item in known.items():
        if name not in raw:
            if item.default is MISSING:
                problems.append(Problem(prefix + name, "is required: " + item.metadata["doc"]))
            continue
        try:
            values[name] = item.metadata["parse"](raw[name])
        except NestedProblems as nested:
            problems += [Problem(f"{prefix}{name}.{p.key}", p.message) for p in nested.problems]
        except ValueError as wanted:
            problems.append(Problem(prefix + name, str(wanted)))
    return problems or cls(**values)


def _unknown(
    raw: Mapping[str, object], known: Mapping[str, object], prefix: str
) -> Iterator[Problem]:
    for name in raw:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f'; did you mean "{prefix}{close[0]}"?' if close else ""
            yield Problem(prefix + name, f"unknown key{hint}")


class NestedProblems(ValueError):
    """Problems inside a mapping or a list, each with its own key."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{p.key}: {p.message}" for p in problems))
        self.problems = problems


def text(raw: object) -> str:
    """A non-empty string on one line."""
    if not isinstance(raw, str) or not raw.strip() or "\n" in raw:
        raise ValueError(f"must be a non-empty string, not {_show(raw)}")
    return raw


def matching(pattern: str, wanted: str) -> Parser:
    """A string that matches *pattern* as a whole; *wanted* says so in words."""

    def parse(raw: object) -> str:
        if not isinstance(raw, str) or not re.fullmatch(pattern, raw):
            raise ValueError(f"must be {wanted}, not {_show(raw)}")
        return raw

    return parse


def boolean(raw: object) -> bool:
    """True or False, nothing that merely looks like it."""
    if not isinstance(raw, bool):
        raise ValueError(f"must be True or False, not {_show(raw)}")
    return raw


def integer(low: int, high: int) -> Parser:
    """A whole number between *low* and *high*, both included."""

    def parse(raw: object) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int) or not low <= raw <= high:
            raise ValueError(f"must be a whole number from {low} to {high}, not {_show(raw)}")
        return raw

    return parse


def number(low: float, high: float) -> Parser:
    """A number between *low* and *high*, both included."""

    def parse(raw: object) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not low <= raw <= high:
            raise ValueError(f"must be a number from {low} to {high}, not {_show(raw)}")
        return float(raw)

    return parse


def one_of(*choices: str) -> Parser:
    """One of the given words."""

    def parse(raw: object) -> str:
        if raw not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}, not {_show(raw)}")
        return str(raw)

    return parse


def optional(parse: Parser) -> Parser:
    """None, or what *parse* accepts."""
    return lambda raw: None if raw is None else parse(raw)


def sequence(parse: Parser) -> Parser:
    """A list or tuple whose every item *parse* accepts; gives a tuple."""

    def parse_all(raw: object) -> tuple[object, ...]:
        if not isinstance(raw, list | tuple):
            raise ValueError(f"must be a list, not {_show(raw)}")
        problems: list[Problem] = []
        values = []
        for index, item in enumerate(raw):
            try:
                values.append(parse(item))
            except NestedProblems as nested:
                problems += [Problem(f"{index}.{p.key}", p.message) for p in nested.problems]
            except ValueError as wanted:
                problems.append(Problem(str(index), str(wanted)))
        if problems:
            raise NestedProblems(problems)
        return tuple(values)

    return parse_all


def nested(cls: type[T]) -> Parser:
    """A mapping that parses into the dataclass *cls*."""

    def parse(raw: object) -> T:
        if not isinstance(raw, Mapping):
            raise ValueError(f"must be a mapping, not {_show(raw)}")
        result = parse_mapping(cls, raw)
        if isinstance(result, list):
            raise NestedProblems(result)
        return result

    return parse


def table(parse: Parser) -> Parser:
    """A mapping from string names to what *parse* accepts; gives a tuple of pairs, sorted."""

    def parse_all(raw: object) -> tuple[tuple[str, object], ...]:
        if not isinstance(raw, Mapping) or not all(isinstance(name, str) for name in raw):
            raise ValueError(f"must be a mapping with string keys, not {_show(raw)}")
        return tuple(sorted((name, parse(value)) for name, value in raw.items()))

    return parse_all


def scalar(raw: object) -> str | int | float | bool:
    """A string, a number or a boolean."""
    if not isinstance(raw, str | int | float | bool):
        raise ValueError(f"must be a string, a number or True/False, not {_show(raw)}")
    return raw


def _show(raw: object) -> str:
    # The value of a wrong key helps, a long or structured one does not.
    return (
        f"{type(raw).__name__} {raw!r}"
        if isinstance(raw, str | int | float)
        else type(raw).__name__
    )
