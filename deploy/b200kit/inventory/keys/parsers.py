"""Typed inventory keys: each is a dataclass field that carries its parser and its documentation.

One declaration serves validation, defaults, the did-you-mean of a misspelt key, and
docs/reference/inventory.md (b200kit/cli/reference_pages.py).
"""

from __future__ import annotations

import dataclasses
import difflib
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, replace
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Parser:
    """Takes a raw value and gives the typed one, or raises ValueError saying what is *wanted*.

    *keys* is the dataclass whose fields are the keys of the mapping it takes, if it takes one.
    """

    wanted: str
    take: Callable[[object], Any]
    keys: type[Any] | None = None

    def __call__(self, raw: object) -> Any:
        """The typed value of *raw*."""
        return self.take(raw)


@dataclass(frozen=True)
class Problem:
    """One refusal: the dotted *key* it concerns and a *message* that says what is wanted."""

    key: str
    message: str


def setting(parse: Parser, doc: str, default: Any = MISSING, key: str = "") -> Any:
    """Declare an inventory key; without *default* it is required.

    *key* is its name in the inventory where that is a word of Python, such as "from".
    """
    metadata = {"parse": parse, "doc": doc, "key": key}
    if default is MISSING:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


def key_of(item: dataclasses.Field[Any]) -> str:
    """The name a setting has in an inventory."""
    return item.metadata.get("key") or item.name


def parse_mapping(cls: type[T], raw: Mapping[str, object], prefix: str = "") -> T | list[Problem]:
    """Parse *raw* into the dataclass *cls*, or return every problem found in it."""
    known = {key_of(item): item for item in dataclasses.fields(cls)}  # type: ignore[arg-type]
    problems = list(_unknown(raw, known, prefix))
    values: dict[str, object] = {}
    for name, item in known.items():
        if name not in raw:
            if item.default is MISSING:
                problems.append(Problem(prefix + name, "is required: " + item.metadata["doc"]))
            continue
        try:
            values[item.name] = item.metadata["parse"](raw[name])
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


def _simple(wanted: str, accepts: Callable[[Any], bool]) -> Parser:
    """A parser of values that are taken as they are."""

    def parse(raw: object) -> object:
        if not accepts(raw):
            raise ValueError(f"must be {wanted}, not {_show(raw)}")
        return raw

    return Parser(wanted, parse)


def _is_number(raw: object) -> bool:
    # True is an int to Python and nobody's number.
    return isinstance(raw, int | float) and not isinstance(raw, bool)


def _is_line(raw: object) -> bool:
    return isinstance(raw, str) and raw.strip() != "" and "\n" not in raw


text = _simple("a non-empty string", _is_line)
boolean = _simple("True or False", lambda raw: isinstance(raw, bool))
scalar = _simple(
    "a string, a number or True/False", lambda raw: isinstance(raw, str | int | float | bool)
)


def matching(pattern: str, wanted: str) -> Parser:
    """A string that matches *pattern* as a whole; *wanted* says so in words."""
    return _simple(
        wanted, lambda raw: isinstance(raw, str) and re.fullmatch(pattern, raw) is not None
    )


def _is_address(raw: object) -> bool:
    try:
        ipaddress.ip_address(raw if isinstance(raw, str) else "")
    except ValueError:
        return False
    return True


address = _simple("an IP address", _is_address)


def integer(low: int, high: int) -> Parser:
    """A whole number between *low* and *high*, both included."""
    return _simple(
        f"a whole number from {low} to {high}",
        lambda raw: _is_number(raw) and isinstance(raw, int) and low <= raw <= high,
    )


def number(low: float, high: float) -> Parser:
    """A number between *low* and *high*, both included; gives a float."""
    parse = _simple(
        f"a number from {low} to {high}", lambda raw: _is_number(raw) and low <= raw <= high
    )
    return replace(parse, take=lambda raw: float(parse(raw)))


def one_of(*choices: str) -> Parser:
    """One of the given words."""
    return _simple(f"one of {', '.join(choices)}", lambda raw: raw in choices)


def optional(parse: Parser) -> Parser:
    """None, or what *parse* accepts."""
    return Parser(
        f"None or {parse.wanted}", lambda raw: None if raw is None else parse(raw), parse.keys
    )


def or_empty(parse: Parser) -> Parser:
    """The empty string, or what *parse* accepts."""
    return Parser(f'"" or {parse.wanted}', lambda raw: "" if raw == "" else parse(raw))


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

    return Parser(f"a list, each item {parse.wanted}", parse_all, parse.keys)


def nested(cls: type[Any]) -> Parser:
    """A mapping that parses into the dataclass *cls*."""

    def parse(raw: object) -> object:
        if not isinstance(raw, Mapping):
            # Not the value itself: where a reference to a secret belongs it may be the secret.
            raise ValueError(f"must be a mapping, not {type(raw).__name__}")
        result = parse_mapping(cls, raw)
        if isinstance(result, list):
            raise NestedProblems(result)
        return result

    return Parser("a mapping", parse, cls)


def table(parse: Parser) -> Parser:
    """A mapping from string names to what *parse* accepts; gives a tuple of pairs, sorted."""

    def parse_all(raw: object) -> tuple[tuple[str, object], ...]:
        if not isinstance(raw, Mapping) or not all(isinstance(name, str) for name in raw):
            raise ValueError(f"must be a mapping with string keys, not {_show(raw)}")
        return tuple(sorted((name, parse(value)) for name, value in raw.items()))

    return Parser(f"a mapping with string keys, each value {parse.wanted}", parse_all)


def _show(raw: object) -> str:
    # The value of a wrong key helps, a long or structured one does not.
    return (
        f"{type(raw).__name__} {raw!r}"
        if isinstance(raw, str | int | float)
        else type(raw).__name__
    )
