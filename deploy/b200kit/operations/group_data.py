"""Group data that belongs to no group of the nodes: a file of the wrong name, reported once.

pyinfra reads `group_data/NAME.py` for the group NAME and passes over a file of any other name, so
that one wrong letter leaves a node without a single key.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from pyinfra.api.host import Host

from b200kit.inventory.keys.problem import Problem, did_you_mean

_MISSING = ("is required", "is missing")
_Faults = list[tuple[Host, Problem]]


def misnamed(hosts: Iterable[Host], faults: _Faults) -> tuple[list[str], _Faults]:
    """A line for each file that nothing reads, and what else is wrong with any node.

    It is meant for a group without a file where their names are nearly alike, or keys are missing,
    which are then not listed one by one; or for another inventory, which has its name or names it.
    """
    groups = {"all", *(group for host in hosts for group in host.groups)}
    stems = {path.stem for path in folder().glob("*.py")}
    beside = [p for p in folder().parent.glob("*.py") if p.is_file() and p != Path(inventory())]
    others = "\n".join(f"{path.stem} {path.read_text(errors='replace')}" for path in beside)
    present = [(host, fault) for host, fault in faults if not fault.message.startswith(_MISSING)]
    lines = [
        f"{folder() / stem}.py: nothing reads it: the groups are {', '.join(sorted(groups))}{meant}"
        for stem in sorted(stems - groups)
        if (meant := did_you_mean(stem, sorted(groups - stems))) or present != faults
        if not re.search(rf"\b{re.escape(stem)}\b", others)
    ]
    return lines, present if lines else faults


def folder() -> Path:
    """Where the inventory's group data lies."""
    return Path(inventory()).parent / "group_data"


def inventory() -> str:
    """The inventory's file, as the command line names it."""
    return next((a for a in sys.argv[1:] if a.endswith(".py")), "inventory")
