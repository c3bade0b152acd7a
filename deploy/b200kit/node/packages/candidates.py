"""What apt on a node has to offer, out of `apt-cache policy`, and what to install of it. Pure.

A version is asked for as the inventory says it (580.126.20); apt then gets the exact one
(580.126.20-0ubuntu1), because `apt-get install NAME=VERSION` looks past all preferences: a glob
would take the distribution's own build of the same version where the vendor's is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from b200kit.node.state.drift import Package, same_version

Table = Mapping[str, Sequence[tuple[str, int]]]
"""Package to its versions with their priorities, newest first; below 0 is kept out."""

_NAME = re.compile(r"(\S+):")
# " *** 580.126.20-1 1001" is installed; the lines below name the repositories.
_VERSION = re.compile(r" (?:\*\*\*|   ) (\S+) (-?[0-9]+)")


@dataclass(frozen=True)
class Choice:
    """What to give apt-get, what it does not have, and why a run cannot go on."""

    words: tuple[str, ...]
    missing: tuple[Package, ...]
    problems: tuple[str, ...]


def token(package: Package) -> str:
    """One package as an argument: NAME, NAME=VERSION, with "?" when it is optional."""
    return package.key + ("?" if package.optional else "")


def package(token: str) -> Package:
    """The package of a token."""
    name, _, version = token.rstrip("?").partition("=")
    return Package(name, version or None, optional=token.endswith("?"))


def table(policy: str) -> Table:
    """Versions on offer, out of what `apt-cache policy NAME ...` printed in the C locale."""
    found: dict[str, list[tuple[str, int]]] = {}
    versions: list[tuple[str, int]] = []
    for line in policy.splitlines():
        if name := _NAME.fullmatch(line):
            versions = found.setdefault(name[1], [])
        elif version := _VERSION.fullmatch(line):
            versions.append((version[1], int(version[2])))
    return found


def choose(desired: Iterable[Package], offered: Table, sources: Sequence[str]) -> Choice:
    """What to install of *desired*; *sources* are the repositories asked, for the message."""
    words, missing, problems = [], [], []
    for each in desired:
        version = _best(each, offered.get(each.name, ()))
        if version is not None:
            words.append(f"{each.name}={version}" if each.version else each.name)
        elif each.optional:
            missing.append(each)
        else:
            problems.append(_problem(each, offered.get(each.name, ())))
    requested = f"; asked: {', '.join(sources) or 'no repository'}"
    return Choice(tuple(words), tuple(missing), tuple(problem + requested for problem in problems))


def _best(desired: Package, versions: Sequence[tuple[str, int]]) -> str | None:
    fitting = list(_fitting(desired, versions))
    return max(fitting, key=lambda each: each[1])[0] if fitting else None


def _fitting(desired: Package, versions: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    for version, priority in versions:
        fits = desired.version is None or same_version(version, desired.version)
        if fits and priority >= 0:
            yield version, priority


def _problem(desired: Package, versions: Sequence[tuple[str, int]]) -> str:
    text = " ".join(part for part in (desired.name, desired.version) if part)
    has = [version for version, priority in versions if priority >= 0]
    kept_out = [version for version, priority in versions if priority < 0]
    only = f", only {', '.join(has[:4])}" if has else ""
    out = f", but for {', '.join(kept_out[:4])} that the preferences keep out" if kept_out else ""
    return f"apt has no {text}{only or out}"
