"""Steps: what the processes of an engine meet over."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Iterator

from b200kit.node.serving.engine_probe.asked import ProbeFault, ProbeRequest

_WITHIN_S = 3.0
_LOOPBACK = "127.0.0.1"
VARIABLES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
_LENGTHS = {socket.AF_INET: (4, 4), socket.AF_INET6: (8, 16)}
"""Where in its sockaddr an address lies, and how long it is."""


def loopback(asked: ProbeRequest) -> str:
    """A connection over loopback, which gateway, API server and workers all use."""
    try:
        _connect(_LOOPBACK)
    except OSError as error:
        raise ProbeFault(f"no connection to {_LOOPBACK}: {error}", _remedy(error, asked)) from None
    return f"{_LOOPBACK} connects"


def _remedy(error: OSError, asked: ProbeRequest) -> str:
    if error.errno == errno.EAFNOSUPPORT:
        return asked.unit("RestrictAddressFamilies= lacks AF_INET")
    if error.errno in (errno.EADDRNOTAVAIL, errno.ENETUNREACH):
        return "the interface lo is down: ip link set lo up"
    return asked.unit("IPAddressAllow= lacks localhost")


def netlink(asked: ProbeRequest) -> str:
    """The interfaces can be listed, as NCCL and gloo do."""
    try:
        found = addresses()
    except OSError as error:
        remedy = asked.unit("RestrictAddressFamilies= lacks AF_NETLINK")
        raise ProbeFault(f"interfaces cannot be listed: {error}", remedy) from None
    return f"{len(found)} interfaces"


def interface(asked: ProbeRequest) -> str:
    """The interface that NCCL and gloo are given has the address at which the ranks may meet."""
    known = addresses()
    for variable in VARIABLES:
        pattern = asked.environment.get(variable, "")
        chosen = named(pattern, list(known)) if pattern else []
        if not any(asked.address in known[name] for name in chosen):
            right = ", ".join(name for name, own in known.items() if asked.address in own)
            seen = _chosen(variable, pattern, {name: known[name] for name in chosen})
            raise ProbeFault(
                f"{seen}, not {asked.address}",
                asked.unit(f"{variable} must name {right or 'an interface that has it'}"),
            )
    try:
        _connect(asked.address)
    except OSError as error:
        remedy = asked.unit(f"IPAddressAllow= lacks {asked.address}")
        raise ProbeFault(f"no connection to {asked.address}: {error}", remedy) from None
    return f"ranks meet at {asked.address}"


def _chosen(variable: str, pattern: str, found: dict[str, list[str]]) -> str:
    """What a variable names."""
    if not pattern:
        return f"{variable} is not set: the address of the host's name would be used"
    if not found:
        return f"{variable}={pattern} names no interface of this node"
    own = ", ".join(one for those in found.values() for one in those) or "no address"
    return f"{variable}={pattern} names {', '.join(found)} with {own}"


def _connect(address: str) -> None:
    """A connection of this process to itself, both ways. Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as server:
        server.settimeout(_WITHIN_S)
        port = server.getsockname()[1]
        with socket.create_connection((address, port), timeout=_WITHIN_S) as client:
            accepted, _ = server.accept()
            with accepted:
                accepted.settimeout(_WITHIN_S)
                client.sendall(b"?")
                accepted.recv(1)


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
