"""Keeps secrets out of everything a run writes or prints.

Two nets. `redact` removes the values of keys whose name says secret, and text that has the shape
of a credential. `scrub` removes values that the caller knows to be secret, wherever they stand.
Records are not supposed to hold any; this is the last guard before a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

REDACTED = "[redacted]"

_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
_SECRET_WORDS = {
    "authorization", "bearer", "cookie", "credential", "credentials", "hmac", "passphrase",
    "passwd", "password", "passwords", "secret", "secrets", "apikey",
}  # fmt: skip
_SECRET_TAILS = {("token",), ("api", "key"), ("api", "keys"), ("private", "key"), ("auth",)}
_WHERE = {"file", "path", "dir"}  # a key that ends so names a place, not a secret
_PATH_FACTS = {"mode", "owner", "link"}  # what may be told of a secret's file
_SHAPES = [
    re.compile(
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S
    ),
    re.compile(r"(?i)(?<=\bbearer )[\w.~+/=-]{6,}"),
    re.compile(r"\b(?:hf_|sk-|ghp_|nvapi-)[\w-]{8,}"),
    re.compile(r"(?i)(?<=key=|ken=|ord=|ret=)[^\s\[\]\"'&,;]+"),
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
]
_OPTION = re.compile(r"^--?[\w-]+$")


def secret_key(key: str) -> bool:
    """Say whether the name `key` announces a secret value (``hf_token``, ``apiKey``, ``hmac``)."""
    words = [word.lower() for word in _WORD.findall(key)]
    if not words or words[-1] in _WHERE:
        return False
    tails = {tuple(words[-1:]), tuple(words[-2:])}
    return bool(_SECRET_WORDS & set(words) or _SECRET_TAILS & tails)


def redact(value: object) -> object:
    """Return a copy of a JSON value with every secret-looking value replaced."""
    if isinstance(value, dict):
        return {_shapeless(str(k)): _member(str(k), v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return _elements(list(value))
    return _shapeless(value) if isinstance(value, str) else value


def _member(key: str, value: object) -> object:
    if not secret_key(key):
        return redact(value)
    if value is None or isinstance(value, bool):
        return value
    if key.startswith("/") and isinstance(value, dict):  # a file's facts, keyed by its path
        return {k: v if k in _PATH_FACTS else REDACTED for k, v in value.items()}
    if isinstance(value, dict) and set(value) == {"unmeasured"}:
        return redact(value)
    return REDACTED


def _elements(values: list[object]) -> list[object]:
    """Redact a list, and in an argument vector the word that follows a secret option."""
    out: list[object] = []
    hide_next = False
    for value in values:
        out.append(REDACTED if hide_next and isinstance(value, str) else redact(value))
        hide_next = isinstance(value, str) and bool(_OPTION.match(value)) and secret_key(value)
    return out


def _shapeless(text: str) -> str:
    for shape in _SHAPES:
        text = shape.sub(REDACTED, text)
    return text


def scrub(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with every occurrence of the known `secrets` replaced (empty ones ignored)."""
    for secret in sorted({s for s in secrets if s.strip()}, key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return text


def scrub_value(value: object, secrets: Iterable[str]) -> object:
    """Apply `scrub` to every string of a JSON value, keys included."""
    known = list(secrets)
    if isinstance(value, dict):
        return {scrub(str(k), known): scrub_value(v, known) for k, v in value.items()}
    if isinstance(value, list):
        return [scrub_value(v, known) for v in value]
    return scrub(value, known) if isinstance(value, str) else value
