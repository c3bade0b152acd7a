"""The fingerprint of an armored OpenPGP public key (RFC 9580, version 4 keys). Pure.

Enough to hold a repository's key against the fingerprint the inventory pins, with no gpg at hand.
"""

from __future__ import annotations

import base64
import binascii
import hashlib

_BEGIN = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
_PUBLIC_KEY_TAG = 6


def fingerprint(armored: str) -> str:
    """40 upper-case hexadecimal digits; raises ValueError when this is no version 4 public key."""
    packet = _dearmored(armored)
    tag, body = _first_packet(packet)
    if tag != _PUBLIC_KEY_TAG or not body or body[0] != 4:
        raise ValueError("does not begin with a version 4 public key")
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


def _first_packet(data: bytes) -> tuple[int, bytes]:
    if len(data) < 3 or not data[0] & 0x80:
        raise ValueError("holds no OpenPGP packet")
    if data[0] & 0x40:
        return data[0] & 0x3F, _new_format(data)
    size = 1 << (data[0] & 3)
    if size == 8:
        raise ValueError("has a packet of indeterminate length")
    length = int.from_bytes(data[1 : 1 + size], "big")
    return (data[0] >> 2) & 0x0F, data[1 + size : 1 + size + length]


def _new_format(data: bytes) -> bytes:
    first = data[1]
    if first < 192:
        return data[2 : 2 + first]
    if first < 224:
        return data[3 : 3 + ((first - 192) << 8) + data[2] + 192]
    return data[6 : 6 + int.from_bytes(data[2:6], "big")]
