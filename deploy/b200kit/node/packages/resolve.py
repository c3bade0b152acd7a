"""`resolve TOKEN...`: asks apt what it has of packages, prints the words for `apt-get install`.

Runs on the node between `apt-get update` and `apt-get install`. What is optional and missing is
left out and kept in a record, so that later runs know without asking; what is required and missing
ends the script with one line that names it and the repositories asked.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from b200kit.node.lib import durable_files, timestamp
from b200kit.node.lib.apt_output import offers
from b200kit.node.lib.managed_files import STATE_DIRECTORY, note
from b200kit.node.lib.readings import command
from b200kit.node.packages.candidates import choose, package
from b200kit.node.state.drift import Package

SCHEMA = "b200kit/packages/1"
RECORD = STATE_DIRECTORY / "packages.json"
LISTS = Path("/etc/apt/sources.list.d")
_URL = re.compile(r"^URIs: (\S+)", re.MULTILINE)


def main(args: list[str], record: Path = RECORD) -> int:
    """Print the words on one line; 0, or 1 with a line on stderr for each that is missing."""
    desired = [package(token) for token in args]
    sources = repositories()
    policy = command(["apt-cache", "policy", *(each.name for each in desired)])
    choice = choose(desired, offers(policy), sources, own_sources())
    for problem in choice.problems:
        print(f"E: {problem}", file=sys.stderr)
    remember(desired, choice.missing, sources, record)
    print(*choice.words)
    return 1 if choice.problems else 0


def repositories() -> list[str]:
    """URLs of the repositories apt has on this node, as it names them."""
    listed = command(["apt-get", "indextargets", "--format", "$(REPO_URI)"])
    return list(dict.fromkeys(line.strip() for line in listed.splitlines() if line.strip()))


def own_sources(lists: Path = LISTS) -> frozenset[str]:
    """The inventory's repositories, as the host stage wrote them."""
    texts = [path.read_text("utf-8", "replace") for path in sorted(lists.glob("b200kit-*.sources"))]
    return frozenset(url.rstrip("/") for text in texts for url in _URL.findall(text))


def remember(
    desired: Iterable[Package], missing: Iterable[Package], sources: list[str], path: Path
) -> None:
    """Renew the record's entries of what was asked; a record that cannot be read is replaced."""
    entries = saved_entries(path)
    for each in desired:
        entries.pop(each.key, None)
    for each in missing:
        entries[each.key] = {"sources": sources, "at": timestamp.now()}
    document = {"schema": SCHEMA, "missing": entries}
    durable_files.replace(path, json.dumps(document, sort_keys=True) + "\n")


def saved_entries(path: Path) -> dict[str, Any]:
    """The entries of the record, none when there is no sound one."""
    try:
        entries = (note(path) or {}).get("missing")
    except (ValueError, AttributeError):
        return {}
    return dict(entries) if isinstance(entries, dict) else {}
