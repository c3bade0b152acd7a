"""A TCP connection that costs no turn of the event loop where the peer is on this machine.

What a client takes to connect is in its TTFT, and a busy loop's turn is longer than the handshake
on a loopback: asyncio's own connection waits for three or four of them.
"""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Sequence
from typing import Any

Address = tuple[Any, ...]
"""What `getaddrinfo` returns for one address."""


async def connect(host: str, port: int, seconds: float) -> socket.socket:
    """A non-blocking socket, connected to the first of the host's addresses that takes it.

    `seconds` is for the name and for each address. Raises OSError or asyncio.TimeoutError.
    """
    failed = OSError(f"{host} has no address")
    for address in await _addresses(host, port, seconds):
        try:
            return await _connected(address, seconds)
        except OSError as error:
            failed = error
    raise failed


async def _addresses(host: str, port: int, seconds: float) -> Sequence[Address]:
    """The addresses of a host; those that are written as numbers are looked up nowhere."""
    written = _written(host, port)
    if written:
        return written
    look_up = asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return await asyncio.wait_for(look_up, seconds)


@functools.lru_cache(maxsize=64)
def _written(host: str, port: int) -> Sequence[Address]:
    """The address that a host's name is itself; () for a name."""
    try:
        numbers = socket.AI_NUMERICHOST
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=numbers)
    except socket.gaierror:
        return ()


async def _connected(address: Address, seconds: float) -> socket.socket:
    family, kind, protocol, _, where = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The first call only begins; the second one says "done" when the peer is on this machine.
        if sock.connect_ex(where) and sock.connect_ex(where):
            loop = asyncio.get_running_loop()
            await asyncio.wait_for(loop.sock_connect(sock, where), seconds)
    except BaseException:
        sock.close()
        raise
    return sock
