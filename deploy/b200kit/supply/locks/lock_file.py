"""The text of a lock: its pins, what its first lines say, and how it differs from another. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.utils import canonicalize_name

_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)")
_HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})(?=\s|$)")
_SAID = re.compile(r"^# ([a-z ]+): (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class LockedPackage:
    """One locked package."""

    name: str
    version: str
    hashes: tuple[str, ...]


def entries(text: str) -> Iterator[str]:
    """Each requirement or option of a lock as one line, without comments."""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if bare := re.sub(r"(^|\s)#.*", "", line).strip():
            yield bare


def pins(text: str) -> dict[str, LockedPackage]:
    """What a lock pins, by normal name; other lines are left to `rules`."""
    found = ((_PIN.match(entry), entry) for entry in entries(text))
    every = [
        LockedPackage(canonicalize_name(match[1]), match[2], tuple(_HASH.findall(entry)))
        for match, entry in found
        if match
    ]
    return {pin.name: pin for pin in every}


def said(text: str, key: str) -> list[str]:
    """The values of `# key: value` lines, in their order."""
    return [value for name, value in _SAID.findall(text) if name == key]


def same_pins(before: str, after: str) -> bool:
    """Whether two locks install the same, by the same rules, whenever they were made."""
    keys = ("python", "glibc", "override", "left out")
    return pins(before) == pins(after) and all(said(before, k) == said(after, k) for k in keys)


def difference(before: str, after: str) -> list[str]:
    """What another lock adds, removes and changes, one line each, by name."""
    old, new = pins(before), pins(after)
    return [line for name in sorted({*old, *new}) if (line := _changed(name, old, new))]


def _changed(name: str, old: Mapping[str, LockedPackage], new: Mapping[str, LockedPackage]) -> str:
    if name not in old:
        return f"+ {name} {new[name].version}"
    if name not in new:
        return f"- {name} {old[name].version}"
    if old[name].version != new[name].version:
        return f"~ {name} {old[name].version} -> {new[name].version}"
    return "" if old[name] == new[name] else f"~ {name} {old[name].version}: other hashes"
