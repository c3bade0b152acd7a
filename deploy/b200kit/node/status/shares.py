"""`share set PERCENT`: what a node is given of a whole node's load when it comes back into service.

It is kept over boots. Exit 0; 1 with one line; 2 usage.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from b200kit.node.lib import boot_clock, documents, durable_files
from b200kit.node.lib.documents import Range
from b200kit.node.lib.managed_files import STATE_DIRECTORY
from b200kit.node.lib.readings import is_digits
from b200kit.node.state import agent
from b200kit.node.state.agent import AgentState

WHOLE = 100
GIVEN = STATE_DIRECTORY / "share.json"


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
    """What the node was given; the whole where nothing was written down, 0 where it is damaged."""
    try:
        return documents.load(GivenShare, GIVEN).percent
    except FileNotFoundError:
        return WHOLE
    except documents.Malformed as error:
        print(f"share: {error}; 0 %", file=sys.stderr)
        return 0


def now() -> int:
    """The node's share at this moment, by what its agent has proven; 0 where that is not known."""
    try:
        state = documents.load(AgentState, Path(agent.PATH))
    except (OSError, documents.Malformed) as error:
        print(f"share: {error}; 0 %", file=sys.stderr)
        return 0
    return state.proof.share(*boot_clock.now(), given()) if state.proof else given()


def main(args: list[str]) -> int:
    """`share set PERCENT`."""
    match args:
        case ["set", percent] if is_digits(percent) and 1 <= int(percent) <= WHOLE:
            try:
                keep(int(percent))
            except OSError as error:
                print(f"share: {error}", file=sys.stderr)
                return 1
            return 0
    print("usage: share set PERCENT", file=sys.stderr)
    return 2
