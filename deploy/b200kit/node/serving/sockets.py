"""Connections from the kernel's tables, /proc/net/tcp and /proc/net/tcp6. Pure.

    sl  local_address rem_address   st ... uid
    0:  0100007F:1F90 0200630A:C001 01 ... 1000

Addresses are words of four bytes, each in the machine's order; little-endian is assumed, as on all
machines the kit serves on. An IPv4 peer of an IPv6 socket stands as ::ffff:10.0.0.1.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

_ESTABLISHED = "01"


def connected(tables: Iterable[str], uid: int) -> set[str]:
    """The addresses that processes of a user have an established connection with."""
    return {address for table in tables for address in _remotes(table, uid)}


def _remotes(table: str, uid: int) -> Iterator[str]:
    for line in table.splitlines()[1:]:
        columns = line.split()
        if len(columns) > 7 and columns[3] == _ESTABLISHED and columns[7] == str(uid):
            yield address(columns[2].partition(":")[0])


def address(text: str) -> str:
    """An address as people write it: "0200630A" -> "10.99.0.2"."""
    words = (text[start : start + 8] for start in range(0, len(text), 8))
    packed = b"".join(bytes.fromhex(word)[::-1] for word in words)
    found = ipaddress.ip_address(packed)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)
