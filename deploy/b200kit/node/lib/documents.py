"""Documents as classes: one strict way from foreign JSON to a dataclass, and one back.

A document is a frozen dataclass; its annotations say what each key may be, and `Annotated` with a
`Range` or `Pattern` what values a key may have. `schema`, a class variable, names its version:

    @dataclass(frozen=True)
    class Mark:
        schema: ClassVar[str] = "b200kit/mark/1"
        who: str
        at: Annotated[float, Range(0)]
        why: str = ""

A default is for the program too: a key that a document must say all the same has `NEEDED`. Other
class variables: `derived` names properties that are written for others, which are computed again
when they are read, and a document that says otherwise is refused; `most_bytes` bounds its file.

Bytes are refused that are too many, too deep, name a key twice or hold a number that is none or
that no double holds (RFC 8259, 6); a document is refused if its schema is another one, a key
without default is missing, a key is unknown, or a value is of another type or out of range.
`Malformed` says where, on one line.

What another program prints, whose keys are its own matter, is an `Object`:

    documents.decode(Object, done.stdout, LARGE, "what nft lists")
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import sys
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from b200kit.node.lib.readings import short

T = TypeVar("T")
Object = dict[str, Any]
Structure = Callable[[Any, str], Any]
"""A value of JSON and its path, to the value of a type; raises Malformed."""
MOST_BYTES = 64 << 10
LARGE = 64 << 20
"""Bytes of what whoever may write it would not make larger: a node's answer, a file of root's."""
MOST_DEPTH = 64
"""Lists and objects in one another: Python's own limit depends on who calls."""


NEEDED = {"document": "needed"}
"""Metadata of a field that must be in the document, whatever default it has."""


class Malformed(ValueError):
    """A document cannot be used: where, and why, on one line."""


@dataclass(frozen=True)
class Range:
    """Numbers from `least` to `most`; above `least` only, where `above` says so."""

    least: float = float("-inf")
    most: float = float("inf")
    above: bool = False

    def fault(self, value: float) -> str:
        """What is wrong with a value; empty where nothing is."""
        if value < self.least or (self.above and value == self.least):
            return f"must be {'above' if self.above else 'at least'} {self.least:g}"
        return f"must be at most {self.most:g}" if value > self.most else ""


@dataclass(frozen=True)
class Pattern:
    """Texts that a regular expression matches as a whole. ASCII classes, whatever the script."""

    expression: str

    def fault(self, value: str) -> str:
        """What is wrong with a value; empty where nothing is."""
        found = re.fullmatch(self.expression, value, re.ASCII)
        return "" if found else f"must be as {self.expression}"


def parse(raw: bytes | str, most: int = MOST_BYTES) -> Any:
    """The value of foreign JSON. Raises Malformed."""
    if len(raw) > most:
        raise Malformed(f"larger than {most} bytes")
    try:
        text = raw if isinstance(raw, str) else raw.decode()
        value = _DECODER.decode(text)
    except RecursionError:
        raise Malformed("nested too deeply") from None
    except Malformed:
        raise
    except ValueError as error:
        # Not more of it: what is in a document may be a secret.
        first = raw.strip()[:1]
        begins = repr(first if isinstance(first, str) else first.decode("latin-1"))
        like = "" if first in ("{", "[", b"{", b"[") else f"; it begins with {begins}"
        raise Malformed(f"not JSON: {error}{like if first else '; it is empty'}") from None
    # A chunk of a stream of tokens has fewer brackets.
    if text.count("[") + text.count("{") > MOST_DEPTH and _is_deeper(value, MOST_DEPTH):
        raise Malformed("nested too deeply")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Malformed(f"key {short(twice)} is there twice")
    return found


def _no_constant(word: str) -> None:
    raise Malformed(f"{word} is no number of JSON")


def _number(word: str) -> float:
    number = float(word)
    return number if number not in _ENDLESS else _too_large(word)


def _whole_number(word: str) -> int:
    return int(word) if len(word) <= _MOST_DIGITS else _too_large(word)


def _too_large(word: str) -> Any:
    raise Malformed(f"{short(word)} is too large a number")


_ENDLESS = (float("inf"), float("-inf"))
_MOST_DIGITS = 300
"""Of a whole number; a double holds 308."""
# Made once: json.loads makes one for each text that is read in another than the default way.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_once,
    parse_constant=_no_constant,
    parse_float=_number,
    parse_int=_whole_number,
)


def _is_deeper(value: Any, most: int) -> bool:
    below = [value]
    for _ in range(most):
        below = [
            inner
            for outer in below
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
    return bool(below)


def decode(kind: type[T], raw: bytes | str, most: int = 0, source: object = "") -> T:
    """The document of foreign JSON, of its kind's size if none is named.

    Raises Malformed with the source, where one is named, and the key.
    """
    with _said_of(source):
        return structure(kind, parse(raw, most or _most(kind)))


def request() -> Object:
    """What this command is to do, on stdin; one that is no JSON object ends it, with 2 and a line.

    As argparse does: a request that cannot be read is a wrong way of calling it.
    """
    try:
        return decode(Object, sys.stdin.read(LARGE + 1), LARGE, "the request on stdin")
    except ValueError as error:
        print(f"b200kit: {error}", file=sys.stderr)
        raise SystemExit(2) from None


@contextmanager
def _said_of(source: object) -> Iterator[None]:
    """Where a document is from goes before what is wrong with it."""
    try:
        yield
    except Malformed as error:
        raise Malformed(f"{source}: {error}" if source else str(error)) from None


def _most(kind: object) -> int:
    return getattr(kind, "most_bytes", MOST_BYTES)


def read(path: Path, most: int = MOST_BYTES) -> Any:
    """The value of a JSON file that another user wrote, whose links lead us nowhere.

    Raises FileNotFoundError, and Malformed with the file's name for whatever else is wrong.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with _said_of(path), os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Malformed("no plain file")
            return parse(file.read(most + 1), most)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Malformed(f"{path}: {error.strerror}") from error


def content(path: str | Path, most: int = LARGE) -> bytes:
    """All of a file that a person names, a link or a pipe, too.

    Raises OSError, which names it, also where it is larger (EFBIG).
    """
    try:
        with open(path, "rb") as file:
            raw = file.read(most + 1)
        if len(raw) > most:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    return raw


def load(kind: type[T], path: Path) -> T:
    """The document of a file. Raises FileNotFoundError, and Malformed with file and key."""
    value = read(path, _most(kind))
    with _said_of(path):
        return structure(kind, value)


def structure(kind: type[T], value: object) -> T:
    """The document of a value of JSON. Raises Malformed with the key."""
    made: Any = kind  # mypy takes type[T] for nothing that a cache may hold
    found: T = _structure(made)(value, "")
    return found


def understood(kind: type[T], value: object) -> T | None:
    """The document of a value of JSON; None where it is none."""
    try:
        return structure(kind, value)
    except Malformed:
        return None


def remembered(kind: type[T], path: Path) -> T | None:
    """The document of a file of our own; None where there is none that can be used."""
    try:
        return load(kind, path)
    except (FileNotFoundError, Malformed):
        return None


def unstructure(value: Any) -> Any:
    """Plain JSON of a document, or of a value in one."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if is_dataclass(kind):
        schema = getattr(value, "schema", None)
        head = {"schema": schema} if isinstance(schema, str) else {}
        return {**head, **{key: unstructure(getattr(value, key)) for key in _keys(kind)}}
    if isinstance(value, Enum):
        return _word(value)
    if isinstance(value, Mapping):
        return {key: unstructure(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return [unstructure(inner) for inner in value]
    return value


def to_bytes(value: Any, indent: int | None = 1) -> bytes:
    """The file of a document. Without an indent it is a fifth of the work."""
    return json.dumps(unstructure(value), indent=indent, sort_keys=True).encode()


_PLAIN = {str, int, float, bool, type(None)}


@cache
def _keys(kind: type) -> tuple[str, ...]:
    """What is in a document of a class, in its order."""
    return (*(one.name for one in fields(kind) if _kept(one)), *_derived(kind))


def _kept(one: Field[Any]) -> bool:
    """Whether a field is in the document: what is computed or for this process alone is not."""
    return one.init and one.metadata.get("document", True) is not False


def _derived(kind: Any) -> tuple[str, ...]:
    return getattr(kind, "derived", ())


def _word(one: Enum) -> Any:
    """An enumeration's own `word` for documents, or its value."""
    return getattr(one, "word", one.value)


@cache
def _structure(kind: Any) -> Structure:
    """How values become those of a type, made once a type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _limited(_structure(arguments[0]), arguments[1:])
    if origin in (Union, types.UnionType):
        return _union(arguments)
    if origin is Literal:
        return _one_of(arguments, lambda value: value)
    if origin is tuple and arguments[-1] is not ...:
        return _row([_structure(argument) for argument in arguments])
    if origin in (list, tuple, frozenset, Collection):
        return _many(tuple if origin is Collection else origin, _structure(arguments[0]))
    if origin in (dict, Mapping):
        return _table(_structure(arguments[1]) if arguments else _anything)
    if is_dataclass(kind):
        return _document(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _one_of([_word(one) for one in kind], {_word(one): one for one in kind}.get)
    if kind in (Any, object):
        return _anything
    return _plain(kind)


def _anything(value: Any, where: str) -> Any:
    del where
    return value


def _plain(kind: type) -> Structure:
    def one(value: Any, where: str) -> Any:
        if type(value) is kind and value not in _ENDLESS:
            return value
        if kind is float and type(value) is int:
            return float(value)
        raise _other(value, where, _WORDS.get(kind, kind.__name__))

    return one


_WORDS = {
    str: "a text", int: "a whole number", float: "a number", bool: "true or false",
    dict: "an object", list: "a list", type(None): "null",
}  # fmt: skip


def _other(value: Any, where: str, words: str) -> Malformed:
    return Malformed(f"{where or 'the document'} must be {words}, not {short(value)}")


def _limited(one: Structure, limits: tuple[Any, ...]) -> Structure:
    def limited(value: Any, where: str) -> Any:
        found = one(value, where)
        for limit in limits:
            if why := limit.fault(found):
                raise Malformed(f"{where} {why}, not {short(value)}")
        return found

    return limited


def _union(kinds: tuple[Any, ...]) -> Structure:
    others = [_structure(kind) for kind in kinds if kind is not type(None)]

    def one(value: Any, where: str) -> Any:
        if value is None and len(others) < len(kinds):
            return None
        for other in others[:-1]:
            try:
                return other(value, where)
            except Malformed:
                continue
        return others[-1](value, where)

    return one


def _one_of(words: Collection[Any], made: Callable[[Any], Any]) -> Structure:
    def one(value: Any, where: str) -> Any:
        if any(value == word and type(value) is type(word) for word in words):
            return made(value)
        raise _other(value, where, f"one of {', '.join(map(str, words))}")

    return one


def _many(made: Callable[[Any], Any], one: Structure) -> Structure:
    def many(value: Any, where: str) -> Any:
        if type(value) is not list:
            raise _other(value, where, "a list")
        return made(one(inner, f"{where}[{number}]") for number, inner in enumerate(value))

    return many


def _row(kinds: list[Structure]) -> Structure:
    def row(value: Any, where: str) -> Any:
        if type(value) is not list or len(value) != len(kinds):
            raise _other(value, where, f"a list of {len(kinds)}")
        return tuple(one(value[i], f"{where}[{i}]") for i, one in enumerate(kinds))

    return row


def _table(one: Structure) -> Structure:
    def table(value: Any, where: str) -> Any:
        if type(value) is not dict:
            raise _other(value, where, "an object")
        return {key: one(inner, f"{where}.{key}".lstrip(".")) for key, inner in value.items()}

    return table


def _document(kind: Any) -> Structure:
    hints = get_type_hints(kind, include_extras=True)
    keys = {f.name: _structure(hints[f.name]) for f in fields(kind) if _kept(f)}
    needed = {
        f.name
        for f in fields(kind)
        if _kept(f)
        and (f.metadata == NEEDED or (f.default is MISSING and f.default_factory is MISSING))
    }
    needed.update(derived := _derived(kind))
    schema = getattr(kind, "schema", None)

    def document(value: Any, where: str) -> Any:
        if type(value) is not dict:
            raise _other(value, where, "an object")
        given = dict(value)
        if isinstance(schema, str) and (found := given.pop("schema", None)) != schema:
            raise Malformed(f"{where}: ".lstrip(": ") + f"of schema {short(found)}, not {schema}")
        below = f"{where}." if where else ""
        for key in given:
            if key not in keys and key not in derived:
                raise Malformed(f"{below}{key}: unknown key")
        if absent := needed - given.keys():
            raise Malformed(f"{below}{min(absent)} is missing")
        try:
            made = kind(
                **{key: keys[key](given[key], f"{below}{key}") for key in given if key in keys}
            )
        except Malformed:
            raise
        except ValueError as error:  # what a class finds wrong with its values together
            raise Malformed(f"{below}{error}") from None
        for key in derived:
            if given[key] != (computed := unstructure(getattr(made, key))):
                rest = f"by the rest of it, not {short(given[key])}"
                raise Malformed(f"{below}{key} must be {short(computed)} {rest}")
        return made

    return document
