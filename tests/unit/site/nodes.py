"""Nodes as `b200 init` has seen them, for its tests."""

from __future__ import annotations

import base64
from typing import Any

import yaml

from b200kit.cli import init
from b200kit.site.plan import Login, SeenNode, SiteRequest

CHOICES: dict[str, Any] = yaml.safe_load(init._CHOICES.read_text(encoding="utf-8"))
ASKED = SiteRequest("llama-3.3-70b-fp8", "balanced", "internet")


def key(letter: str) -> str:
    """A host key that is nobody's."""
    parts = (b"ssh-ed25519", letter.encode() * 32)
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return f"ssh-ed25519 {base64.b64encode(blob).decode()}"


def node(name: str, **changes: Any) -> SeenNode:
    """A bare Debian 12 node that was looked at as root."""
    login = changes.pop("login", Login(name, f"{name}.example.internal", "root"))
    said: dict[str, Any] = {
        "keys": (key(name[-1]),), "keys_why": "printed on its console (n.log)",
        "system": "debian12", "hardware": "hgx-b200", "kernel": "6.1.0-31-amd64",
        "gpus": "8 GPUs of hgx-b200",
    }  # fmt: skip
    return SeenNode(name=name, login=login, **(said | changes))
