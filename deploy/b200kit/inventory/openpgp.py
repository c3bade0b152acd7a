"""The fingerprints of armored OpenPGP public keys (RFC 9580, version 4 keys). Pure.

Enough to hold a repository's key against the fingerprint the inventory pins, with no gpg at hand. A
file may hold several keys; only the pinned one is ever written.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator

_BEGIN = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
_END = "-----END PGP PUBLIC KEY BLOCK-----"
_HEADER = re.compile(r"[A-Za-z]+: [ -~]*")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+=*").fullmatch
_SIGNATURE, _PUBLIC_KEY, _NAME, _SUBKEY = 2, 6, 13, 14
_OF_A_KEY = (_SIGNATURE, _PUBLIC_KEY, _NAME, _SUBKEY)
_KEYS = (_PUBLIC_KEY, _SUBKEY)


_Key = list[tuple[int, bytes]]


def fingerprints(armored: str) -> list[str]:
    """40 upper-case hexadecimal digits a key; raises ValueError for all but version 4 keys."""
    return [_fingerprint(key) for key in _keys(armored)]


def canonical(armored: str, pinned: str) -> bytes:
    """The pinned key in its canonical encoding: every reader finds the packets that were checked.

    Readers of armor disagree on where it begins and ends, and so on which keys a file holds.
    Raises ValueError where the file holds no such key.
    """
    there = {_fingerprint(key): key for key in _keys(armored)}
    if pinned.upper() not in there:
        raise ValueError(f"has {', '.join(there)}, not {pinned.upper()}")
    data = b"".join(_written(tag, body) for tag, body in there[pinned.upper()])
    encoded = base64.b64encode(data).decode()
    lines = [encoded[at : at + 64] for at in range(0, len(encoded), 64)]
    return "\n".join([_BEGIN, "", *lines, _END, ""]).encode()


def embedded(armored: str, pinned: str) -> str:
    """The pinned key as Signed-By has it in a source of apt 2.4 or newer: a field of lines."""
    lines = canonical(armored, pinned).decode().splitlines()
    return "\n".join(f" {line or '.'}" for line in lines)


def _fingerprint(key: _Key) -> str:
    _, body = key[0]
    framed = b"\x99" + len(body).to_bytes(2, "big") + body
    return hashlib.sha1(framed, usedforsecurity=False).hexdigest().upper()


def _keys(armored: str) -> list[_Key]:
    """Version 4 keys: the packets of each with its names, signatures and subkeys, and no other."""
    packets = list(_packets(_dearmored(armored)))
    if not packets:
        raise ValueError("holds no OpenPGP packet")
    tag, body = packets[0]
    if tag != _PUBLIC_KEY or body[:1] != b"\x04":
        raise ValueError("does not begin with a version 4 public key")
    keys: list[_Key] = []
    for tag, body in packets:
        if tag not in _OF_A_KEY or (tag in _KEYS and body[:1] != b"\x04"):
            raise ValueError(
                f"holds a packet of type {tag} that is not read here; give the key as gpg --armor "
                "--export-options export-minimal --export writes it"
            )
        if tag == _PUBLIC_KEY:
            keys.append([])
        keys[-1].append((tag, body))
    return keys


def _written(tag: int, body: bytes) -> bytes:
    """A packet in the old format, as gpg writes keys, with the shortest length."""
    size = next(n for n in (1, 2, 4) if len(body) < 1 << (8 * n))
    head = 0x80 | tag << 2 | {1: 0, 2: 1, 4: 2}[size]
    return bytes([head]) + len(body).to_bytes(size, "big") + body


def _dearmored(armored: str) -> bytes:
    """The bytes in the armor; ValueError for all that readers could take in more than one way."""
    lines = armored.replace("\r\n", "\n").strip("\n").split("\n")
    if lines[0] != _BEGIN:
        raise ValueError("is not an armored OpenPGP public key")
    if lines[-1] != _END or "" not in lines:
        raise ValueError("is damaged: its armor has no empty line after its headers, or no end")
    at = lines.index("")
    headers, body = lines[1:at], lines[at + 1 : -1]
    if body and body[-1].startswith("="):
        body.pop()
    if not all(_HEADER.fullmatch(line) for line in headers) or not all(map(_BASE64, body)):
        raise ValueError("is damaged: its armor holds a line that is neither header nor base64")
    try:
        return base64.b64decode("".join(body), validate=True)
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
    if first < 255:
        raise ValueError("has a packet of partial length")
    return tag, 6, int.from_bytes(data[2:6], "big")
