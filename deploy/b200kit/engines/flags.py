"""What one version of an engine takes on its command line and from its environment. Pure.

The lists come from the engine's own argument parser (b200kit/catalog/engines/snapshot.py). A flag
that is misspelt, removed, or given what it cannot take ends a server only after minutes of loading;
here it is one line before the first connection.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from b200kit.engines.contract import Scalar
from b200kit.engines.levers import Lever
from b200kit.node.lib.documents import Malformed, parse

# What vLLM and SGLang accept as sizes: 4096, 16k, 1.5M.
_SIZE = re.compile(r"-?[0-9]+|[0-9]+(\.[0-9]+)?[kKmMgGtT]|auto")


@dataclass(frozen=True)
class Flag:
    """One flag by its long name; *off* are names that switch it off, *aliases* its other names."""

    type: str
    choices: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    # A switch without a name for "off", of an engine that takes "off" by name.
    one_way: bool = False

    def refuses(self, value: Scalar) -> str:
        """What is expected instead of *value*, in words; empty when the flag takes it."""
        if self.type == "bool" or (self.type == "bool-or-str" and isinstance(value, bool)):
            return self._refuses_switch(value)
        text = str(value)
        if isinstance(value, bool) or not _READS[self.type](text):
            return _WANTED[self.type]
        if self.choices and text not in self.choices:
            return f"one of {', '.join(self.choices)}"
        return ""

    def _refuses_switch(self, value: Scalar) -> str:
        if value is False and self.one_way:
            return "True, or left out: it cannot be switched off by name"
        return "" if isinstance(value, bool) else "True or False"


@dataclass(frozen=True)
class FlagRange:
    """Numbers that a flag takes, as mathematicians write them: "(0, 1]", "[1, inf)"."""

    text: str

    def has(self, value: object) -> bool:
        """Whether a number is one of them; anything but a number is for others to judge."""
        if isinstance(value, bool):
            return False
        try:
            number = float(value) if isinstance(value, (int, float, str)) else 1.0
        except ValueError:
            return True
        low, high = (float(end) for end in self.text[1:-1].split(","))
        above = number >= low if self.text[0] == "[" else number > low
        return above and (number <= high if self.text[-1] == "]" else number < high)


@dataclass(frozen=True)
class Advisory:
    """A weakness, and the first version without it."""

    id: str
    fixed: str
    what: str
    source: str


@dataclass(frozen=True)
class Version:
    """What one version takes: its flags by long name, and its environment variables.

    *fields* are those of the file that `--config` names, where its names are not the flags'; a part
    of one is written with a dot. So is a part of a flag's JSON in *ranges*.
    """

    engine: str
    version: str
    flags: Mapping[str, Flag] = field(default_factory=dict)
    environment: frozenset[str] = frozenset()
    fields: Mapping[str, Flag] = field(default_factory=dict)
    ranges: Mapping[str, FlagRange] = field(default_factory=dict)

    def wrong_flag(self, name: str, value: Scalar) -> str:
        """Why `name: value` cannot be given, in words; empty when it can."""
        whole, dot, _ = name.partition(".")
        flag = self.fields.get(name) or self.flags.get(whole)
        if flag is None:
            return self._unknown(name)
        if dot and name not in self.fields:
            return self._beyond(name, value) if flag.type == "json" else f"{whole} has no parts"
        expected = flag.refuses(value)
        hint = _close(str(value), flag.choices)
        return f"must be {expected}, not {value!r}{hint}" if expected else self._beyond(name, value)

    def _beyond(self, name: str, value: Scalar) -> str:
        """Why the engine's own check of ranges would end it; empty where it would not."""
        given: dict[str, object] = {name: value}
        with contextlib.suppress(Malformed):
            parts = parse(str(value))
            if isinstance(parts, dict):
                given |= {f"{name}.{n}": v for n, v in parts.items()}
            elif any(known.startswith(f"{name}.") for known in self.ranges):
                return f"must be an object in JSON, not {value!r}"
        wrong = ((n, v) for n, v in given.items() if n in self.ranges and not self.ranges[n].has(v))
        part, found = next(wrong, ("", None))
        within = part.removeprefix(name).lstrip(".")
        where = f"{within} in it " if within else ""
        return f"{where}must be in {self.ranges[part].text}, not {found}" if part else ""

    def _unknown(self, name: str) -> str:
        for known, flag in self.flags.items():
            if name in flag.aliases or f"-{name}" in flag.aliases:
                return f'is another name of it; write "{known}"'
            if name in flag.off:
                return f'write "{known}": False'
        parts = [known for known in self.fields if known.startswith(f"{name}.")]
        if parts:
            return f'is given by its parts, such as "{parts[0]}"'
        close = _close(name, {**self.flags, **self.fields})
        return f"unknown flag of {self.engine} {self.version}{close}"

    def wrong_variable(self, name: str, beginnings: Iterable[str]) -> str:
        """Why a variable of the engine's own cannot be given; empty for anybody else's."""
        own = name.startswith(tuple(beginnings)) and self.environment
        if not own or name in self.environment:
            return ""
        return f"{self.engine} {self.version} does not read it{_close(name, self.environment)}"


def version(document: Mapping[str, Any], ranges: Mapping[str, str] | None = None) -> Version:
    """A `Version` of a file of b200kit/catalog/engines/, with the ranges of its engine's flags."""
    return Version(
        engine=document["engine"],
        version=document["version"],
        flags=_flags(document, "flags"),
        environment=frozenset(document["environment"].split()),
        fields=_flags(document, "fields"),
        ranges={
            name: FlagRange(text)
            for text, names in (ranges or {}).items()
            for name in names.split()
        },
    )


def _flags(document: Mapping[str, Any], table: str) -> dict[str, Flag]:
    entries = document.get(table, {})
    return {name: _flag(document["engine"], entry) for name, entry in entries.items()}


def _flag(engine: str, entry: Mapping[str, Any]) -> Flag:
    lists = {name: tuple(entry.get(name, ())) for name in ("choices", "off", "aliases")}
    one_way = engine == "vllm" and entry["type"] == "bool" and not lists["off"]
    return Flag(type=entry["type"], one_way=one_way, **lists)


def _close(name: str, known: Iterable[str]) -> str:
    # Underscores for dashes is the commonest slip, and not close enough for difflib.
    plain = name.replace("_", "-") if "-" in "".join(known) else name
    [*close] = difflib.get_close_matches(plain, list(known), n=1, cutoff=0.7)
    return f'; did you mean "{close[0]}"?' if close else ""


def _is_json(text: str) -> bool:
    try:
        parse(text)
    except Malformed:
        return False
    return True


# float() takes digits of every script, "nan" and "1_0", too.
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_READS: dict[str, Callable[[str], bool]] = {
    "int": lambda text: re.fullmatch(r"-?[0-9]+", text) is not None,
    "size": lambda text: _SIZE.fullmatch(text) is not None,
    "float": lambda text: _NUMBER.fullmatch(text) is not None,
    "json": _is_json,
    "str": lambda text: True,
    "bool-or-str": lambda text: True,
}
_WANTED = {
    "int": "a whole number",
    "size": 'a whole number such as 8192 or "8k"',
    "float": "a number",
    "json": "a text in JSON",
    "str": "a text",
    "bool-or-str": "a text",
}


def below(version: str, other: str) -> bool:
    """Whether a version comes before another: "0.14.1" before "0.22.0"."""
    return numbers(version) < numbers(other)


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a release: "0.33.0" -> (0, 33, 0)."""
    return tuple(int(part) for part in version.split("."))


def open_advisories(version: str, advisories: Iterable[Advisory]) -> Iterator[Advisory]:
    """The weaknesses a version has."""
    return (known for known in advisories if below(version, known.fixed))


@dataclass(frozen=True)
class EngineKnowledge:
    """What this checkout knows of an engine: lists of its versions, weaknesses, levers.

    *refused* are families of models that it cannot serve, each with the reason.
    """

    versions: Mapping[str, Version] = field(default_factory=dict)
    advisories: tuple[Advisory, ...] = ()
    levers: tuple[Lever, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
