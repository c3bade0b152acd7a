"""Group data that belongs to no group of the nodes: a file of the wrong name, reported once.

pyinfra reads `group_data/NAME.py` for the group NAME and passes over a file of any other name, so
that one wrong letter leaves a node without a single key.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from pyinfra.api.host import Host

from b200kit.inventory.keys.problem import Problem, did_you_mean
from b200kit.report.names import hostlist

_MISSING = ("is required", "is missing")
_FEWEST = 3
"""Missing keys from which on it is no key that somebody forgot."""
_Faults = list[tuple[Host, Problem]]


def once(faults: _Faults) -> tuple[list[str], _Faults]:
    """A line for nodes of which no group has data, and what else is wrong with any node.

    The keys missing on such a node are not listed one by one.
    """
    missing = Counter(host.name for host, fault in faults if _is_missing(fault))
    lacking = {
        host.name: host
        for host, _ in faults
        if missing[host.name] >= _FEWEST and not _has_data(host)
    }
    rest = [(h, f) for h, f in faults if h.name not in lacking or not _is_missing(f)]
    return ([_line(list(lacking.values()))] if lacking else []), rest


def folder() -> Path:
    """Where the inventory's group data lies."""
    return Path(inventory()).parent / "group_data"


def inventory() -> str:
    """The inventory's file, as the command line names it."""
    return next((a for a in sys.argv[1:] if a.endswith(".py")), "inventory")


def _is_missing(fault: Problem) -> bool:
    return fault.message.startswith(_MISSING)


def _has_data(host: Host) -> bool:
    """Whether a file of one of its groups says anything of a node."""
    return any(host.inventory.get_group_data(group) for group in host.groups)


def _line(hosts: list[Host]) -> str:
    groups = list(dict.fromkeys(group for host in hosts for group in host.groups))
    files = sorted(path.stem for path in folder().glob("*.py") if path.stem != "all")
    meant = [did_you_mean(stem, groups) for stem in files if stem not in groups]
    nearest = next(filter(None, meant), "")
    names = hostlist(host.name for host in hosts)
    there = f"there is {_named(files)}{nearest}" if files else "there is none"
    return f"{folder()}: {names}: no file is read for a group: {_named(groups)} would be; {there}"


def _named(stems: Iterable[str]) -> str:
    return " or ".join(f"{stem}.py" for stem in stems)
