"""Secrets are taken out of what leaves a node: the values it has, and what looks like one.

A value is looked for as it is, in base64 and as it stands in a URL or in JSON. One shorter than
eight characters is not: it would tear holes into every text, and no key is that short.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

FOLDER = Path("/etc/b200kit/secrets")
FILES = (Path("/etc/haproxy/b200kit-upstream.map"),)
SHORTEST = 8
LEFT_OUT = b"[left out: a secret]"
_PATTERNS = (
    re.compile(
        rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S
    ),
    re.compile(rb"(?i)(?<=bearer )[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(rb"\bhf_[A-Za-z0-9]{20,}"),
    re.compile(rb"(?i)(?<=api-key[ =])[^\s'\"]{8,}"),
    re.compile(rb"(?i)(?<=api_key[ =])[^\s'\"]{8,}"),
)


class Scrubber:
    """Takes some values, and all that looks like a key or token, out of texts."""

    def __init__(self, values: Iterable[bytes]) -> None:
        found = {form for value in values for form in _forms(value.strip())}
        # The longest first: one value may be the beginning of another.
        words = sorted((form for form in found if len(form) >= SHORTEST), key=len, reverse=True)
        self._values = re.compile(b"|".join(map(re.escape, words))) if words else None

    @classmethod
    def of_this_node(cls, folder: Path = FOLDER, files: Iterable[Path] = FILES) -> Scrubber:
        """All that this node keeps secret. Raises OSError where that cannot be read."""
        own = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
        contents = [path.read_bytes() for path in (*own, *files) if path.exists()]
        return cls(value for content in contents for value in _values_in(content))

    def clean(self, content: bytes) -> bytes:
        """The same without secrets."""
        if self._values:
            content = self._values.sub(LEFT_OUT, content)
        for pattern in _PATTERNS:
            content = pattern.sub(LEFT_OUT, content)
        return content


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
