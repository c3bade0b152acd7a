"""`share`: how much of a whole node's load this node may have, as HAProxy's agent check asks.

    share set PERCENT | share answer

`set` keeps what the node is given when it comes back into service, over boots. `answer` serves the
socket that systemd passes on: each connection gets one line, "50%", by what is proven at that
moment (share.py), and is closed. It ends after a minute, and systemd starts it again for the next
question: a new program or new rules take effect by that. Exit 0; 1 with one line; 2 usage.
"""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from b200kit.node.lib import boot_clock, documents, durable_files
from b200kit.node.lib.documents import Range
from b200kit.node.lib.managed_files import STATE_DIRECTORY
from b200kit.node.lib.readings import is_digits
from b200kit.node.proof import share
from b200kit.node.proof.command import before
from b200kit.node.proof.document import Consequence, ProofRules
from b200kit.node.proof.share import WHOLE

GIVEN = STATE_DIRECTORY / "share.json"
RULES = Path("/etc/b200kit/proof.json")
LIVES_S = 60.0
# The first descriptor that systemd passes on (sd_listen_fds(3)).
_PASSED = 3
_USAGE = "usage: share set PERCENT | answer"


@dataclass(frozen=True)
class GivenShare:
    """What the node was given when it came back into service, as it is kept."""

    percent: Annotated[int, Range(1, WHOLE)]


def keep(percent: int) -> None:
    """Remember what the node was given; a whole node's share is what it has without a note."""
    if percent == WHOLE:
        GIVEN.unlink(missing_ok=True)
    else:
        durable_files.replace(GIVEN, documents.to_bytes(GivenShare(percent)))


def given() -> int:
    """What the node was given; the whole where nothing was written down."""
    found = documents.remembered(GivenShare, GIVEN)
    return found.percent if found else WHOLE


def consequence() -> Consequence | None:
    """What the controller wants an expired proof to do; None where no proof is issued here."""
    try:
        return documents.load(ProofRules, RULES).expired
    except FileNotFoundError:
        return None


def now() -> int:
    """The node's share at this moment; 0 where it cannot be determined."""
    try:
        return share.percent(before(), boot_clock.now(), given(), consequence())
    except (OSError, ValueError) as error:
        print(f"share: {type(error).__name__}: {error}; 0 %", file=sys.stderr)
        return 0


def answer(server: socket.socket, lives_s: float = LIVES_S) -> None:
    """Answer every question until *lives_s* have passed. Raises OSError."""
    end = boot_clock.seconds() + lives_s
    while (left := end - boot_clock.seconds()) > 0:
        server.settimeout(left)
        try:
            asking, _ = server.accept()
        except TimeoutError:
            return
        # Whoever asked may have gone.
        with asking, suppress(OSError):
            asking.settimeout(1.0)
            asking.sendall(f"{now()}%\n".encode())


def main(args: list[str]) -> int:
    """See _USAGE."""
    match args:
        case ["set", percent] if is_digits(percent) and 1 <= int(percent) <= WHOLE:
            act = partial(keep, int(percent))
        case ["answer"]:
            act = partial(answer, socket.socket(fileno=_PASSED))
        case _:
            print(_USAGE, file=sys.stderr)
            return 2
    try:
        act()
    except OSError as error:
        print(f"share: {error}", file=sys.stderr)
        return 1
    return 0
