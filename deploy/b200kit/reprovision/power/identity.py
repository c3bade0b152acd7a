"""Whether the system behind a management controller is the node. Pure.

A UUID decides where both have one, else a serial number; neither known on both sides is no match.
"""

from __future__ import annotations

import uuid

from b200kit.records.machines import Machine

_FIELDS = ("uuid", "serial")
_NEVER_READ = (
    "and this node's own were never read: set bmc.uuid or bmc.serial to what its firmware or the "
    "label on the machine says"
)


def refusal(asked: Machine, seen: Machine, reported: Machine) -> str | None:
    """None where *reported*, the controller's word, is the node; else what differs.

    *asked* is the inventory's: what it names must be the controller's, and decides then between
    that and what was *seen* on the node.
    """
    named = [name for name in _FIELDS if getattr(asked, name)]
    if not all(_same(name, asked, reported) for name in named):
        return f"it reports {reported}; the inventory says {asked}"
    if seen == Machine():
        return None if named else f"it reports {reported}, {_NEVER_READ}"
    both = [name for name in _FIELDS if getattr(seen, name) and getattr(reported, name)]
    decisive = [name for name in both if name in named] or both[:1]
    if decisive and all(_same(name, seen, reported) for name in decisive):
        return None
    return f"it reports {reported}; the node itself says {seen}"


def _same(field: str, one: Machine, other: Machine) -> bool:
    first, second = getattr(one, field), getattr(other, field)
    if not first or not second:
        return False
    if field == "serial":
        return bool(first.lower() == second.lower())
    return bytes.fromhex(first) in _orders(bytes.fromhex(second))


def _orders(raw: bytes) -> set[bytes]:
    """The byte orders that firmware gives one UUID in: that of RFC 4122; that of SMBIOS, whose
    first three fields are swapped (3.7, 7.2.1); that of IPMI, from the last byte on (2.0, 20.8).
    """
    swapped = uuid.UUID(bytes_le=raw).bytes
    return {raw, swapped, raw[::-1], uuid.UUID(bytes_le=raw[::-1]).bytes}
