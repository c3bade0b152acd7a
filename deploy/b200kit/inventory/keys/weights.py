"""Where a node gets its model from, whom it gives it to, and what of that cannot be. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from b200kit.inventory.keys import parsers
from b200kit.inventory.keys.parsers import Problem, setting
from b200kit.inventory.keys.parts import PORT, Allow, Firewall

_BASE = parsers.matching(r"https?://[^\s/?#]+(/[^\s?#]*)?", "an http(s):// URL")


@dataclass(frozen=True)
class Share:
    """Models offered to other nodes over HTTP, read-only; the firewall opens the port to them."""

    bind: str = setting(parsers.address, 'address it listens on, such as "0.0.0.0"')
    sources: tuple[str, ...] = setting(
        parsers.sequence(parsers.text),
        'who may fetch: addresses and networks such as "10.0.0.0/24"',
        key="from",
    )
    port: int = setting(PORT, "port", 8090)


@dataclass(frozen=True)
class Weights:
    """How a model comes to the node, and what becomes of it there."""

    peers: tuple[str, ...] = setting(
        parsers.sequence(_BASE),
        "base URLs asked before model_store, in this order: other nodes that share, or a cache; "
        "no token is sent to them",
        (),
    )
    share: Share | None = setting(
        parsers.optional(parsers.nested(Share)), "offer this node's models to others", None
    )
    parallel: int = setting(parsers.integer(1, 32), "files fetched at a time", 4)
    deadline_s: int = setting(
        parsers.integer(10, 86_400), "how long a run waits for the model before it serves", 7200
    )
    keep: int | None = setting(
        parsers.optional(parsers.integer(1, 100)),
        "other revisions that stay, the newest first; all of them when None",
        None,
    )
    packed_caches: str | None = setting(
        parsers.optional(parsers.matching(r"[0-9a-f]{64}", "64 hexadecimal digits")),
        "SHA-256 of compile caches packed on a node that was warm, to begin with; see serving.md",
        None,
    )


def problems(
    weights: Weights, gateway_port: int, replica_ports: Sequence[int]
) -> Iterator[Problem]:
    """A share that nobody or everybody may read, or whose port is another's."""
    share = weights.share
    if share is None:
        return
    if not share.sources:
        yield Problem("weights.share.from", "nobody is named")
    for source in share.sources:
        if told := _wrong(source):
            yield Problem("weights.share.from", told)
    if share.port in (gateway_port, *replica_ports):
        yield Problem("weights.share.port", f"port {share.port} is the gateway's or a replica's")


def _wrong(source: str) -> str:
    """Why a text names no network that may fetch; empty when it names one."""
    try:
        network = ipaddress.ip_network(source)
    except ValueError:
        return f'"{source}" is no address and no network'
    whole = network.prefixlen == 0
    return f'"{source}" is everybody; name the networks of the nodes' if whole else ""


def openings(firewall: Firewall | None, weights: Weights) -> Firewall | None:
    """The inventory's firewall, with the port of the share open to those who may fetch."""
    share = weights.share
    if firewall is None or share is None:
        return firewall
    return replace(firewall, allow=(*firewall.allow, Allow(share.port, share.sources)))
