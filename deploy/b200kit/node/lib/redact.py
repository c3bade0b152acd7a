"""Secrets are taken out of everything that leaves a node, and of all that a run writes or prints.

Three nets: values that are known to be secret, text that has the shape of a credential, and in
documents the values of keys whose name announces a secret. A known value is looked for as it is, in
base64 and as it stands in a URL or in JSON.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

FOLDER = Path("/etc/b200kit/secrets")
FILES = (Path("/etc/haproxy/b200kit-upstream.map"),)
SHORTEST = 8
"""Characters of the shortest word of a secret file that is looked for in texts of a node. A shorter
one would tear holes into every text, and no key is that short."""
REDACTED = "[redacted]"

# A file that holds a key is no secret; base64 may begin with a slash, but not so.
_PATH = r"(?:~|\.\.?)/|/(?:etc|home|media|mnt|opt|root|run|srv|tmp|usr|var)/"
# Up to the end of the word, without the brackets that the text closes after it.
_VALUE = r"[^\s\[\]\"'&,;]+?(?=\)*(?:[\s\[\]\"'&,;]|\Z))"
_SHAPES = (
    r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    r"(?i)(?<=bearer )[\w.~+/=-]{6,}",
    r"\b(?:hf_|sk-|ghp_|nvapi-)[\w-]{8,}",
    r"(?i)(?<=api[-_]key[ =])[^\s'\"]{8,}",
    rf"(?i)(?:(?<=key=)|(?<=token=))(?!{_PATH}){_VALUE}",
    rf"(?i)(?:(?<=password=)|(?<=secret=)){_VALUE}",
    r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)",
)
_TEXT_SHAPES = tuple(re.compile(shape) for shape in _SHAPES)
_BYTE_SHAPES = tuple(re.compile(shape.encode()) for shape in _SHAPES)

_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
_SECRET_WORDS = {
    "authorization", "bearer", "cookie", "credential", "credentials", "hmac", "passphrase",
    "passwd", "password", "passwords", "secret", "secrets", "apikey",
}  # fmt: skip
_SECRET_TAILS = {("token",), ("api", "key"), ("api", "keys"), ("private", "key"), ("auth",)}
_WHERE = {"file", "path", "dir"}  # a key that ends so names a place, not a secret
_PATH_FACTS = {"mode", "owner", "link"}  # what may be shown of a secret's file
_SCALARS = (int, float, bool, type(None))
_SHORT, _KEPT, _SETS = 200, 8192, 512  # characters of a text, texts, sets of keys
_OPTION = re.compile(r"^--?[\w-]+$")


class Redactor:
    """Takes known values, and everything that looks like a credential, out of texts."""

    def __init__(self, values: Iterable[bytes], shortest: int = SHORTEST) -> None:
        found = {form for value in values for form in _forms(value.strip())}
        # The longest first: one value may be the beginning of another.
        forms = sorted((form for form in found if len(form) >= shortest), key=len, reverse=True)
        words = [form.decode(errors="replace") for form in forms]
        self._bytes = re.compile(b"|".join(map(re.escape, forms))) if forms else None
        self._texts = re.compile("|".join(map(re.escape, words))) if words else None
        # Nodes of a fleet say mostly the same.
        self._known = lru_cache(_KEPT)(self._searched)
        self._plain = lru_cache(_SETS)(self._is_plain)

    @classmethod
    def of_this_node(cls, folder: Path = FOLDER, files: Iterable[Path] = FILES) -> Redactor:
        """With all that this node keeps secret. Raises OSError where that cannot be read."""
        own = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
        contents = [path.read_bytes() for path in (*own, *files) if path.exists()]
        return cls(value for content in contents for value in _values_in(content))

    def content(self, content: bytes) -> bytes:
        """A file's content without secrets."""
        for pattern in (self._bytes, *_BYTE_SHAPES):
            content = pattern.sub(REDACTED.encode(), content) if pattern else content
        return content

    def text(self, text: str) -> str:
        """A text without secrets."""
        return self._known(text) if len(text) <= _SHORT else self._searched(text)

    def _searched(self, text: str) -> str:
        for pattern in (self._texts, *_TEXT_SHAPES):
            text = pattern.sub(REDACTED, text) if pattern else text
        return text

    def document(self, value: object) -> object:
        """A copy of a JSON value without secrets, keys included."""
        if isinstance(value, dict):
            if self._plain(tuple(value)):
                return {k: v if type(v) in _SCALARS else self.document(v) for k, v in value.items()}
            return {self.text(str(k)): self._member(str(k), v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return self._elements(list(value))
        return self.text(value) if isinstance(value, str) else value

    def _is_plain(self, keys: tuple[object, ...]) -> bool:
        """Whether no key is, holds or announces a secret. A thousand nodes share a few key sets."""
        return all(isinstance(k, str) and not secret_key(k) and self.text(k) == k for k in keys)

    def _member(self, key: str, value: object) -> object:
        if not secret_key(key):
            return self.document(value)
        if value is None or isinstance(value, bool):
            return value
        if key.startswith("/") and isinstance(value, dict):  # a file's facts, keyed by its path
            return {k: self.document(v) if k in _PATH_FACTS else REDACTED for k, v in value.items()}
        if isinstance(value, dict) and set(value) == {"unmeasured"}:
            return self.document(value)
        return REDACTED

    def _elements(self, values: list[object]) -> list[object]:
        """A list, and in an argument vector the word that follows a secret option."""
        out: list[object] = []
        hide_next = False
        for value in values:
            hidden = hide_next and isinstance(value, str)
            out.append(REDACTED if hidden else self.document(value))
            hide_next = isinstance(value, str) and bool(_OPTION.match(value)) and secret_key(value)
        return out


def redact(document: object, secrets: Iterable[str] = ()) -> object:
    """A copy of a JSON value without secrets; *secrets* are known ones, however short."""
    return Redactor((secret.encode() for secret in secrets), shortest=1).document(document)


def secret_key(key: str) -> bool:
    """Whether a name announces a secret value (``hf_token``, ``apiKey``, ``hmac``)."""
    words = [word.lower() for word in _WORD.findall(key)]
    if not words or words[-1] in _WHERE:
        return False
    tails = {tuple(words[-1:]), tuple(words[-2:])}
    return bool(_SECRET_WORDS & set(words) or _SECRET_TAILS & tails)


def _values_in(content: bytes) -> Iterator[bytes]:
    """A file as a whole, and each word of it: a map has a name before its value."""
    yield content
    yield from content.split()


def _forms(value: bytes) -> Iterator[bytes]:
    if not value:
        return
    yield value
    yield base64.b64encode(value).rstrip(b"=")
    yield quote(value, safe="").encode()
    yield json.dumps(value.decode(errors="replace"))[1:-1].encode()
