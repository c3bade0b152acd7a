"""Where this machine gets Debian from: read at run time, so that no mirror is written down here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.lab.paths import LabError
from tests.lab.supply.systems import SYSTEMS, System

_PARTS = ("", "-updates", "-security")
_ARCHIVE = re.compile(r"/debian(-security)?/?$")


def parse_one_line(text: str) -> list[tuple[str, str]]:
    """Return the (URI, suite) pairs of a ``sources.list`` file's ``deb`` lines."""
    pairs = []
    for line in text.splitlines():
        words = re.sub(r"\[[^]]*\]", "", line.partition("#")[0]).split()
        if len(words) >= 3 and words[0] == "deb":
            pairs.append((words[1], words[2]))
    return pairs


def parse_deb822(text: str) -> list[tuple[str, str]]:
    """Return the (URI, suite) pairs of a deb822 ``.sources`` file's enabled ``deb`` stanzas."""
    pairs = []
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n\s*\n", kept):
        fields = {
            key.lower(): value.split()
            for key, _, value in (line.partition(":") for line in stanza.splitlines())
        }
        if "deb" in fields.get("types", []) and fields.get("enabled") != ["no"]:
            uris, suites = fields.get("uris", []), fields.get("suites", [])
            pairs += [(uri, suite) for uri in uris for suite in suites]
    return pairs


def archives_of(system: System, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return Debian's own archives with the system's suites, once each, the main suite first.

    Where none of the pairs is of this system, its suites are on the mirror of another one's.
    """
    suites = "|".join(one.suite for one in SYSTEMS.values())
    suite = re.compile(rf"({suites})({'|'.join(_PARTS)})")
    found = [
        (uri.rstrip("/"), match[1], match[2])
        for uri, name in pairs
        if _ARCHIVE.search(uri) and (match := suite.fullmatch(name))
    ]
    exact = [one for one in found if one[1] == system.suite]
    kept = sorted({(_PARTS.index(part), uri) for uri, _, part in exact or found})
    return [(uri, f"{system.suite}{_PARTS[index]}") for index, uri in kept]


def debian_sources(system: System, apt: Path = Path("/etc/apt")) -> list[str]:
    """Return one-line sources of a system as this machine is set up to use Debian.

    Raises `LabError` if the machine names no mirror of Debian.
    """
    pairs: list[tuple[str, str]] = []
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    for file in files:
        if file.suffix == ".list" and file.is_file():
            pairs += parse_one_line(file.read_text(encoding="utf-8"))
        elif file.suffix == ".sources":
            pairs += parse_deb822(file.read_text(encoding="utf-8"))
    kept = archives_of(system, pairs)
    if not kept or kept[0][1] != system.suite:
        what = f"{system.title} ({system.suite})"
        raise LabError(f"{apt} names no mirror of {what}, which hosts are made from")
    return [f"deb {uri} {suite} main" for uri, suite in kept]


def main_source(system: System) -> str:
    """Return the one-line source of a system's main suite alone."""
    return debian_sources(system)[0]
