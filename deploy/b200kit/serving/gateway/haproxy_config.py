"""HAProxy's configuration: the same for a node before its replicas and a fleet before its nodes.

The configuration itself holds no secret. A client's key is kept as a digest of its header, the key
that is shown to the servers in a file that only root reads; both are looked up by HAProxy in maps.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from b200kit import engines
from b200kit.inventory.keys.gateway import SERVED, Gateway, Router, floor
from b200kit.inventory.keys.monitoring import Monitoring
from b200kit.inventory.secrets import Secret
from b200kit.inventory.spec import NodeSpec
from b200kit.node.state.drift import File
from b200kit.node.state.serving import RollingRestartPlan
from b200kit.run.render import render

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.DOTALL)
# What clients of OpenAI's API read: {"error": {"message", "type", "code"}}.
_REFUSALS = {
    "path": ("path_not_served", "this path is not served here"),
    "key": ("invalid_api_key", "a valid API key is needed, as Authorization: Bearer KEY"),
    "method": ("method_not_allowed", "only GET and POST are served here"),
    "length": ("length_required", "Content-Length is needed"),
    "body": ("request_too_large", "the request is too large"),
    "rate": ("rate_limit_exceeded", "too many requests in a minute with this key"),
}


@dataclass(frozen=True)
class Paths:
    """Where HAProxy's files lie."""

    config: str = "/etc/haproxy/haproxy.cfg"
    clients: str = "/etc/haproxy/b200kit-clients.map"
    upstream: str = "/etc/haproxy/b200kit-upstream.map"
    certificate: str = "/etc/haproxy/b200kit.pem"
    public: str = "/etc/haproxy/b200kit.crt"
    # Of the authority behind the certificates of the fleet's nodes.
    nodes: str = "/etc/haproxy/b200kit-nodes.crt"
    socket: str = "/run/haproxy/b200kit.sock"
    kept: str = "/run/b200kit/haproxy-servers"
    # Where systemd answers with the node's own metrics.
    metrics: str = "/run/b200kit-metrics.sock"
    # Where systemd answers with the node's share.
    share: str = "/run/b200kit-share.sock"

    @classmethod
    def under(cls, folder: str) -> Paths:
        """The files that are read, in another folder; the sockets stay where they are."""
        names = {
            name: f"{folder}/{str(getattr(cls, name)).rpartition('/')[2]}"
            for name in ("config", "clients", "upstream", "certificate", "public", "nodes")
        }
        return cls(**names)

    @property
    def optional(self) -> tuple[str, ...]:
        """Files that must go when they are no longer asked for."""
        return self.clients, self.upstream, self.certificate, self.public, self.nodes


PATHS = Paths()


@dataclass(frozen=True)
class BackendServer:
    """One server behind the gateway; *options* are HAProxy's own words."""

    name: str
    address: str
    weight: int = 100
    options: str = ""
    # Where it says what share of its weight it may have.
    share_port: int | None = None

    @property
    def share_address(self) -> str:
        """The same as HAProxy's `server` takes it."""
        return f"{self.address.rpartition(':')[0]}:{self.share_port}"


@dataclass(frozen=True)
class GatewayEndpoint:
    """Where the gateway listens, and who is behind it."""

    name: str
    bind: str
    port: int
    backend: str
    servers: Sequence[BackendServer]
    # Of the servers; the gateway's own is always /health.
    health: str = "/health"
    router: Router | None = None
    # So many of the servers are asked whatever they say of their share.
    floor: int = 0
    # 503 by one of the servers means that another may have the request.
    refuses_by_503: bool = False

    @property
    def address(self) -> str:
        """As HAProxy's `bind` takes it."""
        return f"{self.bind}:{self.port}"

    def asked_on(self, server: BackendServer) -> str:
        """A loopback address of its own for each server, where its share is asked for."""
        return str(ipaddress.ip_address("127.1.0.1") + self.servers.index(server))

    @property
    def shares(self) -> bool:
        """Whether the servers are to get unequal shares."""
        return len({server.weight for server in self.servers}) > 1


def files(
    gateway: Gateway,
    endpoints: Sequence[GatewayEndpoint],
    secrets: Mapping[str, Secret],
    paths: Paths = PATHS,
    notify: tuple[str, ...] = (),
    monitoring: Monitoring | None = None,
    share_port: int | None = None,
) -> list[File]:
    """Everything HAProxy reads, the configuration first; metrics and share are of the first
    endpoint.
    """
    own = secrets.get("api_key")
    keys = _keys(gateway, secrets)
    pem = secrets.get("gateway.certificate")
    text = _config(gateway, endpoints, keys, paths, own, monitoring, share_port)
    found = [File(paths.config, text, notify=notify)]
    if keys:
        found.append(File(paths.clients, _clients(keys), 0o600, secret=True, notify=notify))
    if own:
        upstream = b"node Bearer " + own.reveal() + b"\n"
        found.append(File(paths.upstream, upstream, 0o600, secret=True, notify=notify))
    if pem:
        found.append(
            File(paths.certificate, pem.reveal() + b"\n", 0o600, secret=True, notify=notify)
        )
        found.append(File(paths.public, b"".join(_CERTIFICATE.findall(pem.reveal()))))
    return found


def _keys(gateway: Gateway, secrets: Mapping[str, Secret]) -> list[tuple[str, Secret]]:
    """Client and key; the holder of the node's own key is called "node"."""
    named = [(c.name, f"gateway.clients.{n}.key") for n, c in enumerate(gateway.clients)]
    return [(name, secrets[key]) for name, key in (("node", "api_key"), *named) if key in secrets]


def _clients(keys: Sequence[tuple[str, Secret]]) -> bytes:
    """The map from the digest of a whole Authorization header to the client's name."""
    lines = [
        f"{hashlib.sha256(b'Bearer ' + key.reveal()).hexdigest().upper()} {name}\n"
        for name, key in keys
    ]
    return "".join(lines).encode()


def _config(
    gateway: Gateway,
    endpoints: Sequence[GatewayEndpoint],
    keys: Sequence[tuple[str, Secret]],
    paths: Paths,
    own: Secret | None,
    monitoring: Monitoring | None,
    share_port: int | None,
) -> bytes:
    return render(
        "haproxy/haproxy.cfg.j2",
        monitoring=monitoring,
        share_port=share_port,
        gateway=gateway,
        endpoints=endpoints,
        unlimited=_unlimited(gateway, endpoints),
        purpose="; ".join(f"{e.name}: {e.address} before {len(e.servers)}" for e in endpoints),
        tls=f" ssl crt {paths.certificate} alpn h2,http/1.1" if gateway.certificate else "",
        paths=paths,
        keyed=bool(keys),
        upstream=own is not None,
        served=SERVED,
        limited=[client for client in gateway.clients if client.requests_per_minute],
        refusals={name: _refusal(*text) for name, text in _REFUSALS.items()},
    )


def _unlimited(gateway: Gateway, endpoints: Sequence[GatewayEndpoint]) -> list[str]:
    """Sources without a limit of connections: the node itself, and those of the inventory."""
    own = {e.bind for e in endpoints if not ipaddress.ip_address(e.bind).is_unspecified}
    return sorted({"127.0.0.1", "::1", *own, *gateway.unlimited_sources})


def _refusal(code: str, message: str) -> str:
    """The body of a refusal, quoted for HAProxy."""
    error = {"message": message, "type": "gateway_error", "code": code}
    return "'" + json.dumps({"error": error}).replace("}}", "} }") + "'"


def address(spec: NodeSpec) -> str:
    """URL of the endpoint as its own node reaches it."""
    return url(spec, _reachable(spec.gateway_bind))


def url(spec: NodeSpec, host: str) -> str:
    """URL of the endpoint at *host*."""
    scheme = "https" if spec.gateway.certificate is not None else "http"
    return f"{scheme}://{host}:{spec.gateway_port}"


def rolling_restart(spec: NodeSpec) -> RollingRestartPlan:
    """How replicas are restarted one after the other behind the gateway."""
    counted = engines.get(spec.engine).metrics
    return RollingRestartPlan(
        min_available=floor(spec.min_available, spec.replicas),
        restart_drain_s=spec.restart_drain_s,
        in_flight=tuple(counted[name] for name in ("running", "waiting") if name in counted),
    )


def _reachable(bind: str) -> str:
    if bind in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        return "127.0.0.1"
    return f"[{bind}]" if ":" in bind else bind
