"""`packages`: one apt transaction on this node, from what an earlier one left to the holds.

What it prints goes into `LOG`; the last line is the answer, or why there is none. Lines that begin
with "b200kit: " are for a person, the rest is apt's and dpkg's own.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from b200kit.node.facts import dpkg
from b200kit.node.facts.dpkg_state import VENDOR
from b200kit.node.lib import apt, apt_output, documents, durable_files, installed, timestamp
from b200kit.node.lib.apt import INSTALL, UPDATE, Apt
from b200kit.node.lib.managed_files import STATE_DIRECTORY, note
from b200kit.node.packages import candidates, failure
from b200kit.node.packages.candidates import Choice
from b200kit.node.packages.failure import megabytes, nearest, room, unfinished
from b200kit.node.state.drift import Package

LOG = Path("/var/log/b200kit-apt.log")
SCHEMA = "b200kit/packages/1"
RECORD = STATE_DIRECTORY / "packages.json"
"""What was requested of apt and it does not have; later runs know it without asking."""
POLL_S = 1.0
LISTS = Path("/etc/apt/sources.list.d")
_URL = re.compile(r"^URIs: (\S+)", re.MULTILINE)
ARCHIVES, PROGRAMS = "/var/cache/apt/archives", "/usr"


class NotReady(Exception):
    """Why packages cannot be installed now, in one line."""


@dataclass(frozen=True)
class PackageTransaction:
    """What is asked for.

    *ours*: other packages that b200kit may repair; *only*: the one list of sources that apt reads;
    *wait_s*: how long another who holds a lock is waited for.
    """

    packages: tuple[Package, ...] = ()
    absent: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    only: str | None = None
    wait_s: float = 300.0
    fetch_only: bool = False

    @property
    def apt(self) -> Apt:
        """apt as the transaction has it."""
        return apt.of_list(self.only)

    def is_ours(self, name: str) -> bool:
        """Whether b200kit may repair a package: one it asks for, or the vendor's."""
        return name in self.ours or bool(VENDOR.search(name))


def finish(asked: PackageTransaction) -> None:
    """Wait until nobody holds a lock of apt or dpkg, then configure what an interrupted dpkg left.

    What is ours alone is left to the installation that follows, so that a module is not built
    twice; it may also bring another version. Raises NotReady with who still holds a lock, or what
    is not ours and cannot be configured.
    """
    end = time.monotonic() + asked.wait_s
    while (held := dpkg.holder()) is not None:
        if time.monotonic() >= end:
            raise NotReady(
                f"{held} holds the lock of dpkg, for {asked.wait_s:.0f} s and longer; "
                "wait for it or end it, then run again"
            )
        time.sleep(POLL_S)
    if not dpkg.interrupted() and all(map(asked.is_ours, unfinished())):
        return
    _, lines = asked.apt.attempt("dpkg", "--configure", "-a")
    print(*lines, sep="\n", flush=True)
    foreign = {name: state for name, state in unfinished().items() if not asked.is_ours(name)}
    if foreign:
        named = ", ".join(f"{name} ({state})" for name, state in foreign.items())
        found = apt_output.unconfigured(lines)
        raise NotReady(
            f"not fully installed and not b200kit's: {named}"
            + (f": {found[1]}" if found and found[0] in foreign else "")
            + "; repair or purge it, then run again"
        )


def configure(asked: PackageTransaction) -> None:
    """Configure what is left, ours too."""
    finish(asked)
    asked.apt.act("dpkg", "--configure", "-a")


def offer(asked: PackageTransaction) -> dict[str, Any]:
    """The versions that apt has of packages, newest first, and which of them are installed."""
    finish(asked)
    asked.apt.act("apt-get", *UPDATE)
    offered = asked.apt.offers(package.name for package in asked.packages)
    return {
        "versions": {name: [each.version for each in found] for name, found in offered.items()},
        "installed": sorted(n for n, found in offered.items() if any(o.installed for o in found)),
    }


def install(asked: PackageTransaction) -> dict[str, Any]:
    """Install the exact versions, remove what is to be absent, hold; with *fetch_only* only fetch.

    Answers with the keys of the optional packages that apt has none of; they are left out.
    """
    finish(asked)
    asked.apt.act("apt-get", *UPDATE)
    choice, sources = choose(asked.apt, asked.packages, LISTS)
    remember(asked.packages, choice.missing, sources)
    if choice.problems:
        raise NotReady("; ".join(choice.problems))
    words = (*choice.words, *(f"{name}-" for name in asked.absent))
    mend_dependencies(asked)
    look_at_room(asked.apt, words)
    # Noted before it comes, so that it can be removed.
    installed.note_packages(choice.words, apt_output.new(simulated(asked.apt, *words)[1]))
    fetch = ("--download-only",) if asked.fetch_only else ()
    asked.apt.act("apt-get", "-y", *INSTALL, *fetch, *words)
    left_out = [package.key for package in choice.missing]
    held = [each.name for each in asked.packages if each.hold and each.key not in left_out]
    if held and not asked.fetch_only:
        asked.apt.act("apt-mark", "hold", *held)
    return {"missing": left_out}


def choose(its: Apt, asked: Sequence[Package], lists: Path) -> tuple[Choice, list[str]]:
    """What to install of what is offered, and the URLs of the repositories as apt names them.

    Of the *lists* those are ours that the host stage wrote.
    """
    listed = its.said("apt-get", "indextargets", "--format", "$(REPO_URI)")
    sources = list(dict.fromkeys(line.strip() for line in listed if line.strip()))
    texts = [path.read_text("utf-8", "replace") for path in sorted(lists.glob("b200kit-*.sources"))]
    own = frozenset(url.rstrip("/") for text in texts for url in _URL.findall(text))
    offered = its.offers(package.name for package in asked)
    return candidates.choose(asked, offered, sources, own), sources


def remember(
    asked: Iterable[Package], missing: Iterable[Package], sources: list[str], path: Path = RECORD
) -> None:
    """Renew the record's entries of what was asked; a record that cannot be read is replaced."""
    try:
        known: Any = (note(path) or {}).get("missing")
    except (ValueError, AttributeError):
        known = None
    asked_for = {each.key for each in asked}
    kept = known if isinstance(known, dict) else {}
    entries = {key: value for key, value in kept.items() if key not in asked_for}
    entries |= {each.key: {"sources": sources, "at": timestamp.now()} for each in missing}
    document = {"schema": SCHEMA, "missing": entries}
    durable_files.replace(path, json.dumps(document, sort_keys=True) + "\n")


def simulated(its: Apt, *words: str) -> tuple[bool, list[str]]:
    """Whether apt would install, and what it says of it."""
    return its.attempt("apt-get", "--simulate", *INSTALL, *words)


def mend_dependencies(asked: PackageTransaction) -> None:
    """`apt-get -f install` where dependencies are broken, unless it removes what is not ours."""
    if asked.apt.attempt("apt-get", "check")[0]:
        return
    possible, lines = simulated(asked.apt, "--fix-broken")
    foreign = sorted(n for n in apt_output.steps(lines)["Remv"] if not asked.is_ours(n))
    if not possible or foreign:
        named = f"would remove {', '.join(foreign)}" if foreign else "finds no way"
        raise NotReady(
            f"dependencies are broken and `apt-get -f install` {named}; repair them by hand"
        )
    asked.apt.act("apt-get", "-y", *INSTALL, "--fix-broken")


def look_at_room(its: Apt, words: Iterable[str]) -> None:
    """NotReady when apt would need more room than there is, before it unpacks anything."""
    # --assume-no alone installs what needs no question: packages that bring no others.
    _, lines = its.attempt("apt-get", "--assume-no", "--download-only", *INSTALL, *words)
    download, unpacked = apt_output.sizes(lines)
    one_file_system = os.stat(nearest(ARCHIVES)).st_dev == os.stat(nearest(PROGRAMS)).st_dev
    needs = {PROGRAMS: unpacked + download * one_file_system}
    for path, need in {**needs, ARCHIVES: download}.items():
        free = room(path)[1]
        if need > free:
            raise NotReady(
                f"no disk space: the packages need {megabytes(need)} on the file system of {path}, "
                f"{megabytes(free)} are free; nothing was installed"
            )


ACTS: Mapping[str, Callable[[PackageTransaction], dict[str, Any] | None]] = {
    "finish": finish, "configure": configure, "offer": offer, "install": install,
}  # fmt: skip


def main(args: list[str]) -> int:
    """Do one of `ACTS` with a request in JSON; its answer is the last line, or the reason is."""
    act, request = args
    try:
        answer = ACTS[act](
            documents.decode(PackageTransaction, request, documents.LARGE, "the request")
        )
    except (NotReady, OSError, documents.Malformed) as error:
        said = "" if isinstance(error, NotReady) else failure.why(failure.read_lines(LOG))
        if said := said or str(error):
            print(f"{apt_output.PREFIX}{said}", file=sys.stderr, flush=True)
        return 1
    print(json.dumps(answer or {}))
    return 0
