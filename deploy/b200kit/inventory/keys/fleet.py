"""A second endpoint on a node, before the gateways of all nodes. Pure.

Any node may have one, and several should: each has the whole fleet behind it, so whatever spreads
clients over them (DNS, a virtual address, the clients) has no single point to lose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.keys.proof import SHARE_PORT
from b200kit.inventory.keys.types import HostName, Keys, Port, Text, Unique, matching


class FleetNode(Keys):
    """One node's gateway."""

    name: Annotated[str, matching(r"[A-Za-z0-9._-]+", "a name without blanks")]
    """its name"""
    address: HostName
    """where the others reach it"""
    port: Port = 8000
    """port of its gateway"""
    weight: int = Field(100, ge=0, le=256)
    """its share of the requests"""
    share_port: Port | None = None
    """where it says how much of that it may have (`proof.share_port`); None: all of it, always"""


class Fleet(Keys):
    """The endpoint before the gateways of several nodes."""

    port: Port
    """port, on gateway_bind"""
    nodes: Unique[FleetNode] = ()
    """all nodes of the inventory when empty"""
    ca_file: Text | None = None
    """certificates of the authority behind the nodes' gateways, PEM, a path on the controller;
    None: they speak plain HTTP"""


def files(fleet: Fleet | None) -> Iterator[tuple[str, str]]:
    """Each file of the controller by its key in the inventory."""
    if fleet and fleet.ca_file:
        yield "fleet.ca_file", fleet.ca_file


def problems(fleet: Fleet, key_in_plain: bool) -> Iterator[Problem]:
    """No node with a weight, a key in plain text."""
    if key_in_plain and not fleet.ca_file:
        yield Problem(
            "fleet.ca_file",
            "none, so api_key and prompts would travel to the nodes in plain text. Give one, or "
            'say gateway.tls = "off"',
        )
    if fleet.nodes and not any(node.weight for node in fleet.nodes):
        yield Problem("fleet.nodes", "all weights are 0: nobody would answer")


def filled(data: Mapping[str, Any], every: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """A node's inventory data, whose fleet is *every* gateway where it names none."""
    section = data.get("fleet")
    if not isinstance(section, Mapping) or section.get("nodes"):
        return data
    return {**data, "fleet": {**section, "nodes": list(every)}}


def gateways(hosts: Iterable[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The gateways of all *hosts* (name, data), as a fleet names its nodes."""
    return [_node(name, given) for name, given in hosts if _answers(name, given)]


def _answers(name: str, data: Mapping[str, Any]) -> bool:
    """Whether a node has an endpoint: members of a group that work for its head have none."""
    group = data.get("group")
    if not isinstance(group, Mapping) or group.get("join") == "data":
        return True
    return bool(group.get("head") == name)


def _node(name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    proof = data.get("proof")
    given = proof if isinstance(proof, Mapping) else {}
    return {
        "share_port": given.get("share_port", SHARE_PORT) if given.get("issue") != "off" else None,
        "name": name,
        "address": data.get("fleet_address") or data.get("ssh_hostname") or name,
        "port": data.get("gateway_port", 8000),
        "weight": data.get("fleet_weight", 100),
    }
