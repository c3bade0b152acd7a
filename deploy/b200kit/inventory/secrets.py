"""Secrets are fetched on the controller, stay in memory, and are never shown."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from b200kit.inventory.keys.parts import SecretRef
from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.rules import secret_references
from b200kit.inventory.spec import NodeSpec

# Those the serving units and the node program read; the others are for the gateway alone.
NAMES = ("api_key", "hf_token")
# Needed only to reprovision a node: a check or a deploy does without them.
FOR_REPROVISIONING = ("bmc.password", "reimage.token")


# Of these each is one word in the field Authorization of a request.
_HEADER_WORD = re.compile(rb"[\x21-\x7e]+")
_OF_CLIENTS = re.compile(r"api_key|gateway\.clients\.[0-9]+\.key")
_LEAST = 16
"""Characters of a key of clients: `openssl rand -hex 16` gives twice as many."""
_IN_HEADERS = re.compile(r"api_key|hf_token|gateway\.clients\.[0-9]+\.key")


class Secret:
    """The bytes of a secret; printing, formatting or logging one shows only that it exists."""

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        """The bytes, for the one place that writes them to a root-only file."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(set)"


def resolve(spec: NodeSpec, reprovisioning: bool = True) -> tuple[dict[str, Secret], list[Problem]]:
    """The node's secrets by name, and a problem for each that cannot be had."""
    found: dict[str, Secret] = {}
    problems: list[Problem] = []
    keys: dict[str, bytes] = {}
    for name, ref in secret_references(spec):
        if name in FOR_REPROVISIONING and not reprovisioning:
            continue
        try:
            value = _read(ref)
        except (KeyError, OSError, ValueError, subprocess.SubprocessError) as error:
            problems.append(Problem(name, _reason(ref, error)))
            continue
        if _IN_HEADERS.fullmatch(name) and not _HEADER_WORD.fullmatch(value):
            problems.append(Problem(name, "must be one word of printable ASCII characters"))
            continue
        if _OF_CLIENTS.fullmatch(name):
            if len(value) < _LEAST:
                problems.append(Problem(name, f"must have at least {_LEAST} characters"))
            elif other := next((n for n, known in keys.items() if known == value), None):
                problems.append(Problem(name, f"is the key of {other}: whose limits would hold?"))
            keys[name] = value
        found[name] = Secret(value)
    return found, problems


def _read(ref: SecretRef) -> bytes:
    if ref.env:
        raw = os.environ[ref.env].encode()
    elif ref.file:
        raw = Path(ref.file).expanduser().read_bytes()
    else:
        raw = subprocess.run(ref.command, capture_output=True, check=True, timeout=30).stdout
    value = raw.strip()
    if not value:
        raise ValueError("it is empty")
    return value


def _reason(ref: SecretRef, error: Exception) -> str:
    # Never the error's own text for a command: it may quote what the command printed.
    if ref.env:
        return f"environment variable {ref.env} is not set or empty on the controller"
    if ref.file:
        return f"{ref.file} cannot be read on the controller or is empty ({type(error).__name__})"
    return f"command {ref.command[0]} gave no secret ({type(error).__name__})"
