"""Where a node gets its model from, whom it gives it to, and what of that cannot be. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from pydantic import Field

from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.keys.types import (
    Address,
    BaseUrl,
    Keys,
    Listed,
    Network,
    Port,
    Unique,
    is_everybody,
)

_PLAIN = re.compile(r"http://(\[[^]/?#]*\]|[^]:/?#]*)(?::[0-9]*)?(?:[/?#].*)?")


class WeightsServer(Keys):
    """Models offered to other nodes over HTTP, read-only; the firewall opens the port to them."""

    bind: Address
    """address it listens on, such as "0.0.0.0" """
    sources: Listed[Network] = Field(alias="from")
    """who may fetch: addresses and networks such as "10.0.0.0/24" """
    port: Port = 8090
    """port"""


class Weights(Keys):
    """How a model comes to the node, and what becomes of it there."""

    peers: Unique[BaseUrl] = ()
    """base URLs tried before model_store, in this order: other nodes that share, or a cache; no
    token is sent to them"""
    server: WeightsServer | None = None
    """offer this node's models to others"""
    parallel: int = Field(4, ge=1, le=32)
    """files fetched at a time"""
    deadline_s: int = Field(7200, ge=10, le=86_400)
    """how long a run waits for the model before it serves"""
    retain: int | None = Field(None, ge=1, le=100)
    """other revisions that stay, the newest first; all of them when None"""


def problems(weights: Weights) -> Iterator[Problem]:
    """A server that nobody or everybody may read from."""
    server = weights.server
    if server is None:
        return
    if not server.sources:
        yield Problem("weights.server.from", "nobody is named")
    if is_everybody(server.sources):
        yield Problem("weights.server.from", "is everybody; name the networks of the nodes")


def token_problems(model_store: str, tls: str) -> Iterator[Problem]:
    """A token for the model store that would be sent in plain text over a network."""
    if tls != "off" and is_plain(model_store):
        yield Problem(
            "hf_token",
            f"would be sent in plain text to {model_store}. Use https://, leave the token out, or "
            'say model_store_tls = "off"',
        )


def is_plain(url: str) -> bool:
    """Whether what is sent to a URL can be read on a network."""
    plain = _PLAIN.fullmatch(url)
    return bool(plain and not _is_loopback(plain[1].strip("[]")))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
