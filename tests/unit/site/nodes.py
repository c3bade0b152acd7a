"""Nodes as `b200 init` has seen them, for its tests."""

from __future__ import annotations

import base64
from typing import Any

import yaml

from b200kit.cli import init
from b200kit.run import known_hosts
from b200kit.run.login import Login
from b200kit.site.plan import PinnedHost, SeenNode, SiteRequest

CHOICES: dict[str, Any] = yaml.safe_load(init._CHOICES.read_text(encoding="utf-8"))
ASKED = SiteRequest("llama-3.3-70b-fp8", "balanced", "internet")


def key(letter: str) -> str:
    """A host key that is nobody's."""
    parts = (b"ssh-ed25519", letter.encode() * 32)
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return f"ssh-ed25519 {base64.b64encode(blob).decode()}"


def node(name: str, **changes: Any) -> SeenNode:
    """A bare Debian 12 node that was looked at as root."""
    login = changes.pop("login", Login(f"{name}.example.internal", "root", 22))
    why = changes.pop("why", "printed on its console (n.log)")
    pin = PinnedHost(known_hosts.name_of(login.host, login.port or 22), (key(name[-1]),), why)
    said: dict[str, Any] = {
        "typed": name, "pins": (*changes.pop("before", ()), pin),
        "system": "debian12", "hardware": "hgx-b200", "kernel": "6.1.0-31-amd64",
        "gpus": "8 GPUs of hgx-b200",
    }  # fmt: skip
    return SeenNode(name=name, login=login, **(said | changes))
