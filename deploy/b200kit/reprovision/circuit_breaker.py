"""When a run may take another node out, and when it stops and a person must decide. Pure.

Many nodes that fail alike have one cause that no action on a node cures: a bad driver package, a
switch, a power feed. Taking them all out would make an outage of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from b200kit.node.state.verdict import Finding

# What names a single node or part in a reading: UUIDs, PCI addresses, long hexadecimal numbers.
_OWN = re.compile(
    r"GPU-[0-9a-f-]{8,}|[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9]|\b[0-9a-fx]{8,}\b", re.I
)


def cause(findings: Sequence[Finding]) -> str:
    """What a node fails by, so that nodes that fail alike are known: check and reading."""
    if not findings:
        return ""
    first = findings[0]
    return f"{first.check or first.summary}: {_OWN.sub('...', first.read or first.summary)}"


@dataclass(frozen=True)
class FleetState:
    """The inventory's nodes, those of them that do not serve, and what may be.

    *failing* has each failing node's cause, those of other runs included. *least*: how many must
    continue to serve. *unread* are those of *out* whose transaction cannot be read: nobody knows
    that they serve.
    """

    nodes: int
    out: Collection[str]
    failing: Mapping[str, str]
    least: int
    max_same_cause: int
    unread: Collection[str] = ()


def open_reason(fleet: FleetState) -> str:
    """Why the breaker is open, naming nodes and what is alike; empty when it is closed."""
    groups: dict[str, list[str]] = {}
    for name, why in sorted(fleet.failing.items()):
        groups.setdefault(why, []).append(name)
    for why, names in groups.items():
        if why and len(names) > fleet.max_same_cause:
            return (
                f"{len(names)} nodes fail alike, more than reprovision.max_same_cause="
                f"{fleet.max_same_cause}: {some(names)} ({why}). No further node is taken out: "
                "look for what they share, and raise the limit if it is on purpose"
            )
    return ""


def floor_reason(fleet: FleetState, name: str, serves: bool) -> str:
    """Why taking *name* out would leave too few; empty when it may be taken.

    What does not serve may always be repaired: that takes nothing from those who do.
    """
    if not serves:
        return ""
    left = fleet.nodes - len({*fleet.out} - {name}) - 1
    if left >= fleet.least:
        return ""
    out = f"; not serving: {some(sorted(fleet.out))}" if fleet.out else ""
    if fleet.unread:
        out += f" (damaged, see b200 transaction list: {some(sorted(fleet.unread))})"
    return (
        f"{left} of {fleet.nodes} node{'s'[: fleet.nodes != 1]} would serve, and the floor is "
        f"{fleet.least}{out}: "
        "bring one back, or lower rollout.floor"
    )


def some(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(names[:6]) + more
