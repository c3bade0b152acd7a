"""The one line of a failed command's output that says why it failed. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from b200kit.node.lib.apt_output import PREFIX, with_reasons

# Most specific first: what our own program says, then what apt, dpkg, pip, systemd and the kernel
# print when it truly went wrong.
_SPECIFIC = (
    re.compile(r"^b200kit: "),
    re.compile(r"No space left on device", re.IGNORECASE),
    re.compile(r"NO_PUBKEY|not signed|EXPKEYSIG|BADSIG|is not valid yet|Release file .* expired"),
    re.compile(
        r"Unable to locate package|has no installation candidate|"
        r"Version '.*' for '.*' was not found"
    ),
    re.compile(
        r"Could not (connect|resolve)|No route to host|Connection (refused|timed out)|"
        r"Failed to fetch"
    ),
    re.compile(r"^E: "),
    re.compile(r"^ERROR: "),
    re.compile(r"^dpkg: error"),
    # Below it systemctl only says where to read more.
    re.compile(r"^Job for \S+ (failed|canceled)"),
)
_REQUIRED = re.compile(r"\S+( @ \S+)? from \S+")
_MAX = 300


def cause(lines: Sequence[str]) -> str:
    """The most specific line, else the last that is not empty; cut to 300 characters."""
    cleaned = with_reasons([line.strip() for line in lines if line.strip()])
    if wheel := _not_as_locked(cleaned):
        return _short(f"{wheel}: its hash is not the lock's")
    for pattern in _SPECIFIC:
        found = [line for line in cleaned if pattern.search(line)]
        if found:
            # Of lines that say the same, the one that says where: apt prints an address but once.
            named = next((line for line in found if "://" in line), found[0])
            return _short(named.removeprefix(PREFIX))
    return _short(cleaned[-1]) if cleaned else "it printed nothing"


def _not_as_locked(lines: Sequence[str]) -> str:
    """The first package whose hash pip refuses; it names it below its words, "NAME from URL"."""
    at = next((n for n, line in enumerate(lines) if "DO NOT MATCH THE HASHES" in line), len(lines))
    named = (_REQUIRED.match(line) for line in lines[at + 1 :])
    return next((match[0] for match in named if match), "")


# What systemd itself writes about a unit, and the fabric manager's start script about that.
_ABOUT = re.compile(
    r"^\S+\.(service|target): |^(Start|Stopp?)(ed|ing) |^Failed to start |failed! Exit code: "
)
# A level by which a line says that it is an error: the fabric manager's, HAProxy's.
_LEVEL = re.compile(r"\[(ERROR|FATAL|CRITICAL|ALERT|EMERG)\]", re.IGNORECASE)
# What the warm-up hook says, unless it only saw that the engine was gone.
_NOT_WARM = re.compile(r"replica [0-9]+ is not warm: (?!the main process).*")
# What the launcher's probe says of the start that it ended.
_PROBED = re.compile(r"replica [0-9]+ cannot start its engine: ")
_START = re.compile(r"^Starting ")
# A raised exception, less those that only point at another one.
_RAISED = re.compile(r"(?<![\w`])\w*(Error|Exception): (?!.*root cause above)\S.*")


def unit_cause(lines: Sequence[str]) -> str:
    """Why a unit failed, by its journal: its probe, its hook, an exception or its last error."""
    starts = [number for number, line in enumerate(lines) if _START.match(line)]
    last = lines[starts[-1] :] if starts else lines
    probed = [line.strip() for line in last if _PROBED.match(line.strip())]
    own = [line.strip() for line in lines if line.strip() and not _ABOUT.search(line)]
    hook = [line for line in own if _NOT_WARM.match(line)]
    raised = [match[0] for line in own if "WARNING" not in line and (match := _RAISED.search(line))]
    errors = [line for line in own if _LEVEL.search(line)]
    return _short((probed or hook or raised or errors or own or ["nothing"])[-1])


def _short(line: str) -> str:
    line = re.sub(r"\s+", " ", line)
    return line if len(line) <= _MAX else line[: _MAX - 1] + "…"
