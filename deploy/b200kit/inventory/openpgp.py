"""The fingerprint of an armored OpenPGP public key (RFC 9580, version 4 keys). Pure.

Enough to hold a repository's key against the fingerprint the inventory pins, with no gpg at hand.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator

_BEGIN = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
_PUBLIC_KEY_TAG = 6


def fingerprint(armored: str) -> str:
    """40 upper-case hexadecimal digits; raises ValueError when this is no one version 4 key."""
    packets = list(_packets(_dearmored(armored)))
    if not packets:
        raise ValueError("holds no OpenPGP packet")
    tag, body = packets[0]
    if tag != _PUBLIC_KEY_TAG or not body or body[0] != 4:
        raise ValueError("does not begin with a version 4 public key")
    keys = [tag for tag, _ in packets].count(_PUBLIC_KEY_TAG)
    if keys > 1:
        # Only one is pinned by its fingerprint.
        raise ValueError(f"holds {keys} keys and apt would trust them all; give a file with one")
    framed = b"\x99" + len(body).to_bytes(2, "big") + body
    return hashlib.sha1(framed, usedforsecurity=False).hexdigest().upper()


def _dearmored(armored: str) -> bytes:
    lines = [line.strip() for line in armored.strip().splitlines()]
    if not lines or lines[0] != _BEGIN:
        raise ValueError("is not an armored OpenPGP public key")
    body = lines[lines.index("") + 1 :] if "" in lines else lines[1:]
    encoded = "".join(line for line in body if not line.startswith(("-", "=")))
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise ValueError("is damaged: its armor is not base64") from None


def _packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and body of each packet."""
    while data:
        if len(data) < 3 or not data[0] & 0x80:
            raise ValueError("holds no OpenPGP packet")
        tag, start, length = _new_header(data) if data[0] & 0x40 else _old_header(data)
        if len(data) < start + length:
            raise ValueError("is damaged: it ends within a packet")
        yield tag, data[start : start + length]
        data = data[start + length :]


def _old_header(data: bytes) -> tuple[int, int, int]:
    """Tag, where the body starts, and its length."""
    size = 1 << (data[0] & 3)
    if size == 8:
        raise ValueError("has a packet of indeterminate length")
    return (data[0] >> 2) & 0x0F, 1 + size, int.from_bytes(data[1 : 1 + size], "big")


def _new_header(data: bytes) -> tuple[int, int, int]:
    tag, first = data[0] & 0x3F, data[1]
    if first < 192:
        return tag, 2, first
    if first < 224:
        return tag, 3, ((first - 192) << 8) + data[2] + 192
    return tag, 6, int.from_bytes(data[2:6], "big")
