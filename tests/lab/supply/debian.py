"""Where this machine gets Debian from: read at run time, so that no mirror is written down here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.lab.paths import LabError

SUITE = "bookworm"
NEWER = "trixie"
_SUITES = (SUITE, f"{SUITE}-updates", f"{SUITE}-security")
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


def debian_only(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Keep Debian 12's own archives, once each, the main suite first."""
    kept = {
        (uri.rstrip("/"), suite)
        for uri, suite in pairs
        if suite in _SUITES and _ARCHIVE.search(uri)
    }
    return sorted(kept, key=lambda pair: _SUITES.index(pair[1]))


def debian_sources(apt: Path = Path("/etc/apt")) -> list[str]:
    """Return one-line sources of Debian 12 as this machine is set up to use them.

    Raises `LabError` if the machine names no mirror for Debian 12.
    """
    pairs: list[tuple[str, str]] = []
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    for file in files:
        if file.suffix == ".list" and file.is_file():
            pairs += parse_one_line(file.read_text(encoding="utf-8"))
        elif file.suffix == ".sources":
            pairs += parse_deb822(file.read_text(encoding="utf-8"))
    kept = debian_only(pairs)
    if not kept or kept[0][1] != SUITE:
        raise LabError(f"{apt} names no mirror of Debian 12 ({SUITE}), which hosts are made from")
    return [f"deb {uri} {suite} main" for uri, suite in kept]


def newer_source() -> str:
    """Return the one-line source of Debian 13 on the same mirror."""
    uri = debian_sources()[0].split()[1]
    return f"deb {uri} {NEWER} main"
