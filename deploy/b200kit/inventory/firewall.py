"""The firewall keys: their faults, and the open ports that they mean. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

from b200kit.inventory.keys.parts import Allow, Firewall
from b200kit.inventory.keys.problem import Problem, did_you_mean
from b200kit.inventory.spec import NodeSpec
from b200kit.node.facts.nft_rules import ANY, Entry
from b200kit.node.lib.url import network


def problems(firewall: Firewall, gateway_bind: str, gateway_port: int) -> Iterator[Problem]:
    """Sources that are nobody's, and a gateway on the network that nobody could reach."""
    yield from _sources(firewall)
    public = not ipaddress.ip_address(gateway_bind).is_loopback
    if public and not opens(firewall, gateway_port):
        yield Problem(
            "firewall.allow",
            f"no rule for port {gateway_port}, though the gateway listens on {gateway_bind}: "
            'allow it, or set gateway_bind = "127.0.0.1"',
        )


def _sources(firewall: Firewall) -> Iterator[Problem]:
    """Sources that are no address, no network and no name; "any" beside others."""
    networks = dict(firewall.networks)
    for name, members in networks.items():
        if not members:
            yield Problem(f"firewall.networks.{name}", "has nobody in it")
        for number, member in enumerate(members):
            if message := _wrong(member, ()):
                yield Problem(f"firewall.networks.{name}.{number}", message)
    for number, allow in enumerate(firewall.allow):
        key = f"firewall.allow.{number}.from"
        if not allow.sources:
            yield Problem(key, f'nobody is named; for everybody write ["{ANY}"]')
        if ANY in allow.sources and len(allow.sources) > 1:
            yield Problem(key, f'"{ANY}" stands beside others, which then mean nothing')
        for source in allow.sources:
            if source != ANY and source not in networks and (message := _wrong(source, networks)):
                yield Problem(key, message)


def _wrong(source: str, names: Iterable[str]) -> str:
    """Why a text is no address or network; empty when it is one."""
    try:
        network(source)
    except ValueError:
        pass
    else:
        return ""
    try:
        whole = network(source, strict=False)
    except ValueError:
        hint = did_you_mean(source, names)
        return f'"{source}" is no address, no network and no name of firewall.networks{hint}'
    return f'"{source}" has bits beyond its prefix; write "{whole}"'


def opened(spec: NodeSpec) -> Firewall | None:
    """The inventory's firewall, with what the node offers to others open to those it is for."""
    if spec.firewall is None:
        return None
    offered: list[tuple[int, tuple[str, ...]]] = []
    if server := spec.weights.server:
        offered.append((server.port, server.sources))
    if share_port := spec.proof.asked_at:
        # Whoever may reach the gateway may ask for the node's share, too.
        gateway = ("tcp", spec.gateway_port)
        allowed = [a for a in spec.firewall.allow if (a.protocol, a.port) == gateway]
        offered += [(share_port, allow.sources) for allow in allowed]
    if spec.monitoring:
        offered += [(port, spec.monitoring.sources) for port in spec.monitoring.ports]
    more = (Allow.model_validate({"port": port, "from": who}) for port, who in offered)
    return spec.firewall.replace(allow=(*spec.firewall.allow, *more))


def entries(firewall: Firewall) -> list[Entry]:
    """Every opening by itself: {"protocol", "port", "source"}, the source a network or "any"."""
    networks = dict(firewall.networks)
    return [
        {"protocol": allow.protocol, "port": allow.port, "source": _plain(source)}
        for allow in firewall.allow
        for name in allow.sources
        for source in networks.get(name, (name,))
    ]


def _plain(source: str) -> str:
    """An address or network as nft lists it: a single address without its prefix."""
    if source == ANY:
        return ANY
    found = ipaddress.ip_network(source)
    return str(found if found.num_addresses > 1 else found.network_address)


def opens(firewall: Firewall, port: int) -> bool:
    """Whether anybody may connect to a TCP port."""
    return any(allow.port == port and allow.protocol == "tcp" for allow in firewall.allow)
