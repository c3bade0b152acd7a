"""SSH host keys as text: read from what a trusted source says, put into a known_hosts file. Pure.

A line of known_hosts is `names type base64 [comment]`; names are separated by commas or hashed
(`|1|salt|hash`, HMAC-SHA1), and a name with a port is `[name]:port` (sshd(8), SSH_KNOWN_HOSTS).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator

TYPES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
)


def name_of(host: str, port: int = 22) -> str:
    """What a host is called in known_hosts."""
    return host if port == 22 else f"[{host}]:{port}"


def keys_in(text: str, marker: str = "") -> tuple[str, ...]:
    """The host keys in a text, each as "type base64"; lines that hold none are passed over.

    Takes public key files and known_hosts lines; of a log, those lines that hold *marker*. A line
    that names a type of key and holds no such key is a ValueError: it may be half of one.
    """
    found = (_key(line.split()) for line in text.splitlines() if marker in line)
    return tuple(dict.fromkeys(key for key in found if key))


def _key(words: list[str]) -> str | None:
    at = next((n for n, word in enumerate(words) if word in TYPES), None)
    if at is None:
        return None
    kind, blob = words[at], words[at + 1] if at + 1 < len(words) else ""
    try:
        raw = base64.b64decode(blob, validate=True)
    except binascii.Error:
        raw = b""
    if _parts(raw)[:1] != [kind.encode()]:
        raise ValueError(f"what follows {kind} is no key of that type")
    return f"{kind} {blob}"


def _parts(raw: bytes) -> list[bytes]:
    """The strings a key is made of, each after its length (RFC 4253, 6.6); none of half a key."""
    found = []
    while raw:
        size = int.from_bytes(raw[:4], "big")
        if len(raw) < 4 + size:
            return []
        found.append(raw[4 : 4 + size])
        raw = raw[4 + size :]
    return found if len(found) > 1 else []


def fingerprint(key: str) -> str:
    """As ssh-keygen -l shows it: "SHA256:..."."""
    digest = hashlib.sha256(base64.b64decode(key.split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def pinned(text: str, names: Iterable[str]) -> tuple[str, ...]:
    """The keys that a known_hosts file holds for a host, whatever name it goes by there.

    A key that the file revokes, for whatever host, is pinned for none.
    """
    desired, no_more = tuple(names), revoked(text)
    lines = (line for line in text.splitlines() if _mine(line, desired))
    keys = dict.fromkeys(" ".join(line.split()[1:3]) for line in lines)
    return tuple(key for key in keys if key not in no_more)


def revoked(text: str) -> frozenset[str]:
    """The keys that a known_hosts file revokes, each "type base64"."""
    return frozenset(key for _, key in _marked(text, "@revoked"))


def authorities(text: str, names: Iterable[str]) -> frozenset[str]:
    """The keys of authorities whose certificates are believed of a host of these names."""
    desired, no_more = tuple(names), revoked(text)
    found = ((who, key) for who, key in _marked(text, "@cert-authority") if key not in no_more)
    return frozenset(key for who, key in found if _matches(who.split(","), desired))


def _marked(text: str, marker: str) -> Iterator[tuple[str, str]]:
    """Patterns and key of each line with a marker."""
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and words[0] == marker:
            yield words[1], " ".join(words[2:4])


def _matches(patterns: list[str], names: tuple[str, ...]) -> bool:
    """Whether patterns of known_hosts name a host: one with "!" takes it out again."""
    fitting = [p for p in patterns if any(_fits(p.removeprefix("!"), name) for name in names)]
    return bool(fitting) and not any(pattern.startswith("!") for pattern in fitting)


def _fits(pattern: str, name: str) -> bool:
    wild = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return _is(pattern, (name,)) or re.fullmatch(wild, name, re.IGNORECASE) is not None


def repinned(text: str, names: Iterable[str], keys: Iterable[str]) -> str:
    """The file with *keys* for the host and no other; what it says of others stays as it is."""
    desired = tuple(names)
    kept = [left for line in text.splitlines() for left in _without(line, desired)]
    return "".join(f"{line}\n" for line in [*kept, *(f"{desired[0]} {key}" for key in keys)])


def _without(line: str, names: tuple[str, ...]) -> Iterator[str]:
    """A line without the host: whole, with its other names, or not at all."""
    if not _mine(line, names):
        yield line
        return
    who, _, rest = line.strip().partition(" ")
    others = [name for name in who.split(",") if not _is(name, names)]
    if others:
        yield f"{','.join(others)} {rest.strip()}"


def _mine(line: str, names: tuple[str, ...]) -> bool:
    # Lines that begin with "@" are of authorities and of keys that are revoked, not pins.
    words = line.split()
    sound = len(words) >= 3 and not line.lstrip().startswith(("#", "@"))
    return sound and any(_is(name, names) for name in words[0].split(","))


def _is(written: str, names: tuple[str, ...]) -> bool:
    if not written.startswith("|1|"):
        return written in names
    try:
        salt, digest = (base64.b64decode(part) for part in written[3:].split("|", 1))
    except (binascii.Error, ValueError):
        return False
    return any(hmac.new(salt, name.encode(), "sha1").digest() == digest for name in names)
