"""The endpoint that a command line names: its URL, and its key from a file or the environment."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import click

from b200kit.node.client.chat import Endpoint
from b200kit.node.lib import url
from b200kit.run import console

KEY = "B200_API_KEY"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def endpoint(text: str, key_file: str | None, command: str) -> Endpoint:
    """The endpoint; a key that goes out in clear text is warned of. Raises UsageError."""
    found = Endpoint(_url(text), _key(key_file))
    parts = urlsplit(found.url)
    if found.api_key and parts.scheme == "http" and parts.hostname not in LOOPBACK:
        console.err(f"b200 {command}: the key goes to {parts.hostname} in clear text")
    return found


def _url(text: str) -> str:
    if re.match(r"https?://[^/]*@", text) or "?" in text:
        raise click.UsageError(f"a key does not belong into the URL: use --key-file or ${KEY}")
    try:
        if not re.fullmatch(r"https?://[!-~]+", text) or "#" in text:
            raise ValueError
        return url.sound(text).rstrip("/").removesuffix("/v1")
    except ValueError:
        raise click.UsageError(f"{text!r} is no http:// or https:// URL") from None


def _key(file: str | None) -> str | None:
    """The API key, of the file or else the environment; None when there is none."""
    if file is None:
        return os.environ.get(KEY) or None
    try:
        key = Path(file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"--key-file {file} cannot be read: {why}") from None
    if not key or not key.isprintable():
        raise click.UsageError(f"--key-file {file} holds no key: one line is expected")
    return key
