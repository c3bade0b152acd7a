"""The gateway's inventory keys, and combinations that cannot work. Pure.

One endpoint in front of a node's replicas: who may come in (named keys, each with a limit of its
own), by which encryption, with what share for each replica.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from b200kit.inventory.keys.parts import SecretRef
from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.keys.types import (
    CpuList,
    Keys,
    Listed,
    Network,
    Port,
    Text,
    Unique,
    is_everybody,
    matching,
)

# vLLM's own limit where it has one (its Rust front end, 0.33); the Python one has none.
BODY_MIB = 32
CONNECTIONS, CONNECTIONS_OF_A_SOURCE = 8192, 1024
REQUEST_TIMEOUT_S = 30
# The rest of vLLM's routes are unauthenticated or for administration.
SERVED = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/models",
    "/v1/responses",
)


class Client(Keys):
    """A client of the endpoint, identified by a key."""

    name: Annotated[
        str, matching(r"[a-z0-9][a-z0-9-]{0,30}", "lower-case letters, digits and dashes")
    ]
    """name in refusals and counters"""
    key: SecretRef
    """key it presents"""
    requests_per_minute: int | None = Field(None, ge=1, le=1_000_000)
    """more are refused with 429; None: no limit"""


class Router(Keys):
    """vllm-router between HAProxy and the replicas: prompts that begin alike go to one replica."""

    requirements: Text
    """hash-locked requirements, a path on the controller; wheels as the engine's"""
    version: Annotated[str, matching(r"[0-9]+(\.[0-9]+)+", 'an exact version such as "0.1.17"')]
    """of vllm-router"""
    policy: Literal["cache_aware", "power_of_two", "round_robin", "consistent_hash"] = "cache_aware"
    """how a replica is chosen"""
    port: Port = 8700
    """loopback port; its metrics are on the next one"""


class Gateway(Keys):
    """The one endpoint: HAProxy."""

    tls: Literal["auto", "off"] = "auto"
    """auto: TLS where there is a certificate; off: plain HTTP on a public address, on purpose"""
    authentication: Literal["key", "off"] = "key"
    """key: a gateway on a public address needs `api_key`; off: anybody who reaches it may ask, on
    purpose"""
    certificate: SecretRef | None = None
    """certificate chain and private key in one PEM"""
    clients: Unique[Client] = ()
    """clients besides the holder of `api_key`, each with a key of its own"""
    max_body_mib: int = Field(BODY_MIB, ge=1, le=1024)
    """largest request, MiB; a larger one is refused with 413"""
    request_timeout_s: int = Field(REQUEST_TIMEOUT_S, ge=1, le=3600)
    """how long a TLS handshake may take, then a request's head with the first 128 KiB of its body,
    and how long a client may take nothing of an answer that is there; waiting for one is not
    limited by it"""
    max_connections: int = Field(CONNECTIONS, ge=64, le=500_000)
    """connections open at once"""
    max_connections_per_source: int = Field(CONNECTIONS_OF_A_SOURCE, ge=1, le=500_000)
    """of these, at most so many from one IPv4 address or one IPv6 /64; the node itself has no
    limit"""
    unlimited_sources: Listed[Network] = ()
    """addresses and networks without that limit, such as load balancers and the nodes with an
    endpoint of the fleet: ["10.20.1.0/24"]"""
    weights: Listed[Annotated[int, Field(ge=0, le=256)]] = ()
    """share of the requests of each replica, such as [95, 5]; least connections when empty"""
    router: Router | None = None
    """cache-aware routing behind HAProxy; None: HAProxy chooses the replica"""
    cpus: CpuList | None = None
    """CPUs of the gateway; those the layout leaves to it when None"""


def references(gateway: Gateway) -> Iterator[tuple[str, SecretRef]]:
    """Each secret by its key in the inventory."""
    if gateway.certificate:
        yield "gateway.certificate", gateway.certificate
    for number, client in enumerate(gateway.clients):
        yield f"gateway.clients.{number}.key", client.key


def problems(gateway: Gateway, bind: str, replicas: int, has_key: bool) -> Iterator[Problem]:
    """Combinations that cannot work, or that nobody can have meant."""
    yield from _encryption(gateway, bind)
    yield from _authentication(gateway, bind, has_key)
    yield from _connections(gateway)
    yield from _clients(gateway, has_key)
    yield from _shares(gateway, replicas)
    yield from _routing(gateway)


def _public(bind: str) -> bool:
    return not ipaddress.ip_address(bind).is_loopback


def _encryption(gateway: Gateway, bind: str) -> Iterator[Problem]:
    if gateway.certificate and gateway.tls == "off":
        yield Problem("gateway.tls", '"off", though there is a certificate: leave one of them out')
    if _public(bind) and not gateway.certificate and gateway.tls != "off":
        yield Problem(
            "gateway.certificate",
            f"none, though the gateway listens on {bind}: keys and prompts would travel in plain "
            'text. Give one, set gateway_bind = "127.0.0.1", or say gateway.tls = "off"',
        )


def _authentication(gateway: Gateway, bind: str, has_key: bool) -> Iterator[Problem]:
    if has_key and gateway.authentication == "off":
        message = '"off", though there is an api_key: leave one of them out'
        yield Problem("gateway.authentication", message)
    if _public(bind) and not has_key and gateway.authentication != "off":
        yield Problem(
            "api_key",
            f"none, though the gateway listens on {bind}: whoever reaches it could use the model. "
            'Give one, set gateway_bind = "127.0.0.1", or say gateway.authentication = "off"',
        )


def _connections(gateway: Gateway) -> Iterator[Problem]:
    if is_everybody(gateway.unlimited_sources):
        message = "is everybody: one source could take every connection"
        yield Problem("gateway.unlimited_sources", message)
    if gateway.max_connections_per_source > gateway.max_connections:
        yield Problem(
            "gateway.max_connections_per_source",
            f"{gateway.max_connections_per_source} of gateway.max_connections = "
            f"{gateway.max_connections}: one source could take every connection",
        )


def _clients(gateway: Gateway, has_key: bool) -> Iterator[Problem]:
    names = [client.name for client in gateway.clients]
    if "node" in names:
        yield Problem("gateway.clients", '"node" is the holder of api_key; take another name')
    if names and not has_key:
        yield Problem("api_key", "is required with gateway.clients: the replicas' own key")


def _shares(gateway: Gateway, replicas: int) -> Iterator[Problem]:
    weights = gateway.weights
    if weights and len(weights) != replicas:
        yield Problem("gateway.weights", f"{len(weights)} weights for {replicas} replicas")
    elif weights and not any(weights):
        yield Problem("gateway.weights", "all are 0: nobody would answer")


def _routing(gateway: Gateway) -> Iterator[Problem]:
    if gateway.router is None:
        return
    if len({*gateway.weights}) > 1:
        yield Problem("gateway.weights", "vllm-router knows no shares: leave one of them out")
    if gateway.router.version == "0.1.14":
        message = "0.1.14 loses its load counters at each health check; take a later one"
        yield Problem("gateway.router.version", message)


def floor(requested: int | None, replicas: int) -> int:
    """How many replicas stay in rotation while one is restarted; a single one cannot."""
    return replicas - 1 if requested is None else requested


def floor_problems(requested: int | None, replicas: int) -> Iterator[Problem]:
    """A floor under which nothing could ever be restarted."""
    if requested is not None and requested >= replicas:
        message = (
            f"{requested} of {replicas} replicas: none can be restarted; at most {replicas - 1}"
        )
        yield Problem("min_available", message)
