"""Network interfaces and their addresses, as NCCL and gloo list them: over netlink."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator

_LENGTHS = {socket.AF_INET: (4, 4), socket.AF_INET6: (8, 16)}
"""Where in its sockaddr an address lies, and how long it is."""


class _Entry(ctypes.Structure):
    """struct ifaddrs (getifaddrs(3)), as far as it is read."""


_Entry._fields_ = [
    ("next", ctypes.POINTER(_Entry)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.c_void_p),
]


def addresses() -> dict[str, list[str]]:
    """Interface to its addresses, IPv4 and IPv6. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    first = ctypes.POINTER(_Entry)()
    if libc.getifaddrs(ctypes.byref(first)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    try:
        found: dict[str, list[str]] = {}
        for entry in _entries(first):
            found.setdefault(os.fsdecode(entry.name), []).extend(_address(entry))
        return found
    finally:
        libc.freeifaddrs(first)


def _entries(entry: ctypes._Pointer[_Entry]) -> Iterator[_Entry]:
    while entry:
        yield entry.contents
        entry = entry.contents.next


def _address(entry: _Entry) -> Iterator[str]:
    if not entry.address:
        return
    family = ctypes.c_ushort.from_address(entry.address).value
    if family in _LENGTHS:
        start, length = _LENGTHS[socket.AddressFamily(family)]
        yield socket.inet_ntop(family, ctypes.string_at(entry.address + start, length))


def named(pattern: str, names: list[str]) -> list[str]:
    """The interfaces that NCCL's pattern chooses (NCCL_SOCKET_IFNAME in its documentation).

    Prefixes with commas between; "=" before them: whole names; "^": all but those. gloo's variable
    has whole names, which are prefixes of themselves.
    """
    exclude, exact = pattern.startswith("^"), pattern.lstrip("^").startswith("=")
    words = [word for word in pattern.lstrip("^=").split(",") if word]

    def fits(name: str) -> bool:
        return any(name == word if exact else name.startswith(word) for word in words)

    return [name for name in names if fits(name) is not exclude]
