"""Why apt or dpkg stopped, from what they printed, and what they would do. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

PREFIX = "b200kit: "
"""Begins a line of ours in a log; b200kit/node/lib/error_line.py prefers it and takes it off."""

# dkms prints these two lines (dkms 3.0, `die 10`); an older dkms has no architecture after it.
_DKMS_FAILED = re.compile(r"Bad return status for module build on kernel: (\S+)")
_DKMS_LOG = re.compile(r"Consult (/\S+/dkms/([A-Za-z0-9_-]+)/([^/\s]+)/\S*make\.log)")
_NO_ROOM = re.compile(r"No space left on device|enough free space in")
_PATH = re.compile(r"(?<![.A-Za-z0-9_])(/[A-Za-z0-9_./+~-]*[A-Za-z0-9_])")
_LOCKED = re.compile(
    r"Could not get lock|lock was locked by another process|Unable to (?:acquire|lock)"
)
_SCRIPT = re.compile(
    r"installed (\S+) package (\S+) script subprocess returned error exit status|"
    r"^dpkg: error processing package (\S+) \(--configure\)"
)
_UNMET = re.compile(r"dependency problems prevent configuration of ([A-Za-z0-9_.+-]+)")
# A log may have command lines of the compiler: -Wno-error, -fsanitize=undefined are no errors.
_SPECIFIC = re.compile(r"(?i)\berror: |No rule to make|\*\*\* |\bundefined( reference|!)")
_SIZE = re.compile(r"([0-9,.]+) (B|kB|MB|GB|TB)")
# The second form of each is that of apt 3, where it is asked to print it.
_DOWNLOAD = re.compile(r"Need to get |\s*Download size: ")
_NEEDED = re.compile(r"After this operation, .* additional |\s*Space needed: ")
# Names of Debian's contrib that drivers depend on; the second form is that of apt 3, on two lines.
_CONTRIB = re.compile(
    r"\b(nvidia-installer-cleanup|nvidia-support)\b.*\s+"
    r"but (?:it is not installable|none of the choices are installable)"
)
# Why a signature does not hold, a warning beside the error: gpgv's words, and sqv's since apt 3.
_UNTRUSTED = re.compile(
    r"W: (?:GPG error|OpenPGP signature verification failed): (\S+) .*?InRelease: "
    r"(?:Sub-process \S+ returned an error code.*?error message is: )?(.+)"
)
_UNSIGNED = re.compile(r"E: The repository '(\S+) .*' is (?:not|no longer) signed")
_TELLING = re.compile(r"^E: |^ .*\b(Depends|Conflicts|Breaks|Recommends): ")
# What follows from another line.
_GENERAL = re.compile(r"Some index files failed|list of sources could not be read")
# One that is there has its version in brackets first.
_NEW = re.compile(r"Inst ([^ :]+)\S* \(")
_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


_NAME = re.compile(r"(\S+):")
# " *** 580.126.20-1 1001" is installed; the lines below name the repositories, or dpkg's own list.
_VERSION = re.compile(r" (\*\*\*|   ) (\S+) (-?[0-9]+)")
_FROM = re.compile(r" {6,}-?[0-9]+ ([a-z][a-z0-9+]*:\S+) .*Packages")


@dataclass(frozen=True)
class Offer:
    """A version of a package as apt has it, with the repositories that have it.

    A priority below 0 is kept out by preferences; one that is installed may be in no repository.
    """

    version: str
    priority: int
    installed: bool = False
    sources: tuple[str, ...] = ()

    def is_from(self, own: Collection[str]) -> bool:
        """Whether one of these repositories has it; also where none of any has it."""
        return not self.sources or any(source in own for source in self.sources)


def offers(policy: str) -> dict[str, list[Offer]]:
    """Versions of each package, newest first, out of what `LC_ALL=C apt-cache policy` printed."""
    found: dict[str, list[Offer]] = {}
    versions: list[Offer] = []
    for line in policy.splitlines():
        if name := _NAME.fullmatch(line):
            versions = found.setdefault(name[1], [])
        elif said := _VERSION.fullmatch(line):
            versions.append(Offer(said[2], int(said[3]), said[1] == "***"))
        elif versions and (said := _FROM.fullmatch(line)):
            last = versions[-1]
            versions[-1] = replace(last, sources=(*last.sources, said[1].rstrip("/")))
    return found


@dataclass(frozen=True)
class DkmsFailure:
    """A module build that failed."""

    kernel: str
    log: str | None = None
    module: str = "the module"
    version: str = ""

    def describe(self, make_log: Sequence[str]) -> str:
        """One line: kernel, the compiler's message, where, and what to do."""
        what = f"DKMS could not build {self.module} {self.version}".rstrip()
        where = f" ({self.log})" if self.log else ""
        return (
            f"{what} for kernel {self.kernel}: {build_error(make_log)}{where}; "
            "repair the build (headers, compiler) or take another driver version, then run again"
        )


def dkms_failure(lines: Sequence[str]) -> DkmsFailure | None:
    """The last failed build of a log."""
    failed = [match[1] for line in lines if (match := _DKMS_FAILED.search(line))]
    if not failed:
        return None
    logs = [match for line in lines if (match := _DKMS_LOG.search(line))]
    if not logs:
        return DkmsFailure(failed[-1])
    return DkmsFailure(failed[-1], logs[-1][1], logs[-1][2], logs[-1][3])


def build_error(make_log: Sequence[str]) -> str:
    """The first line of a build's log that is an error, else its last; "its log says nothing"."""
    lines = [" ".join(line.split()) for line in make_log if line.strip()]
    specific = next((line for line in lines if _SPECIFIC.search(line)), lines[-1] if lines else "")
    return specific[:160] or "its log says nothing"


def no_room(lines: Sequence[str]) -> tuple[str, str | None] | None:
    """The line that says a file system is full, and a path on it if the line names one."""
    for line in lines:
        if _NO_ROOM.search(line):
            path = _PATH.search(line)
            return " ".join(line.split())[:200], path[1] if path else None
    return None


def is_locked(lines: Sequence[str]) -> bool:
    """Whether another process held a lock."""
    return any(_LOCKED.search(line) for line in lines)


def lacks_contrib(lines: Iterable[str]) -> str | None:
    """A package of Debian's contrib that a driver depends on and no source has."""
    match = _CONTRIB.search("\n".join(lines))
    return match[1] if match else None


def with_reasons(lines: Sequence[str]) -> list[str]:
    """The same lines; each error that a repository is not signed says why, where apt says it."""
    reasons = {m[1]: _short_reason(m[2]) for line in lines if (m := _UNTRUSTED.match(line))}
    return [
        f"{line.rstrip('.')}: {reasons[match[1]]}"
        if (match := _UNSIGNED.match(line)) and match[1] in reasons
        else line
        for line in lines
    ]


def errors_of(lines: Sequence[str]) -> list[str]:
    """The lines that say why, without apt's mark, each once."""
    telling = [line for line in with_reasons(lines) if _TELLING.search(line)]
    said = [re.sub(r"^E: |\s+", " ", line).strip() for line in telling]
    exact = [line for line in dict.fromkeys(said) if not _GENERAL.search(line)]
    return exact or said or ["apt failed and gave no reason"]


def _short_reason(text: str) -> str:
    """The first of sqv's nested reasons, which names the key, and the last, which explains it."""
    whole = " ".join(text.split())
    first, _, rest = whole.partition(": ")
    return f"{first}: {rest.rpartition('because: ')[2]}" if "because: " in rest else whole


def unconfigured(lines: Sequence[str]) -> tuple[str, str] | None:
    """The first package whose script failed or whose dependency is missing, and its message."""
    for number, line in enumerate(lines):
        unmet = _UNMET.search(line)
        if unmet:
            text = lines[number + 1].strip() if number + 1 < len(lines) else line
            return unmet[1], text
        if match := _SCRIPT.search(line):
            before = [text.strip() for text in lines[:number] if text.strip()]
            own = [text for text in before if not text.startswith(("dpkg:", "Setting up"))]
            return match[1] or match[3], own[-1] if own else line.strip()
    return None


def sizes(lines: Iterable[str]) -> tuple[int, int]:
    """Bytes that apt would download and that its packages would take more, in this order."""
    download = installed = 0
    for line in lines:
        found = _SIZE.search(line)
        if not found:
            continue
        number = round(float(found[1].replace(",", "")) * _UNITS[found[2]])
        if _DOWNLOAD.match(line):
            download = number
        elif _NEEDED.match(line):
            installed = number
    return download, installed


def steps(simulation: Iterable[str]) -> dict[str, list[str]]:
    """What `apt-get -s` would do: packages by "Inst", "Conf", "Remv" and "Purg"."""
    found: dict[str, list[str]] = {"Inst": [], "Conf": [], "Remv": [], "Purg": []}
    for line in simulation:
        verb, _, rest = line.partition(" ")
        if verb in found and rest:
            found[verb].append(rest.split()[0].partition(":")[0])
    return found


def new(simulation: Iterable[str]) -> list[str]:
    """The packages that `apt-get -s` would bring and that are not there."""
    return [match[1] for line in simulation if (match := _NEW.match(line))]
