"""One act on one lab host, without a run around it: a node with a connection of pyinfra's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyinfra.api.config import Config
from pyinfra.api.inventory import Inventory
from pyinfra.api.state import State

from b200kit.catalog import load
from b200kit.inventory import secrets
from b200kit.inventory.parse import parse
from b200kit.inventory.secrets import Secret
from b200kit.inventory.spec import NodeSpec
from b200kit.run.node import Node
from b200kit.run.remote import Remote
from tests.lab import inventory, status


def node(name: str) -> Node:
    """A host of the lab as its inventory has it, connected."""
    lab = status()
    host = next(host for host in lab["hosts"] if host["name"] == name)
    spec, found = _asked(inventory.node(lab, host))
    pyinfra_host = State(
        Inventory(([(name, inventory.connection(lab, host))], {})), Config()
    ).inventory.get_host(name)
    pyinfra_host.connect()
    return Node(name, spec, found, remote=Remote(pyinfra_host, 60))


def described(of: Node, **changes: Any) -> Node:
    """The same node with other keys in its inventory."""
    lab = status()
    host = next(host for host in lab["hosts"] if host["name"] == of.name)
    spec, found = _asked(inventory.node(lab, host) | changes)
    return replace(of, spec=spec, secrets=found)


def _asked(data: dict[str, Any]) -> tuple[NodeSpec, dict[str, Secret]]:
    spec = parse(data, load.load())
    assert isinstance(spec, NodeSpec), spec
    found, problems = secrets.resolve(spec)
    assert not problems, problems
    return spec, found


def bmc(of: Node, **changes: Any) -> Node:
    """The same node with other words about its controller."""
    assert of.spec.bmc is not None
    return replace(of, spec=of.spec.replace(bmc=of.spec.bmc.replace(**changes)))


def reimage(of: Node, **changes: Any) -> Node:
    """The same node with other words about its images."""
    assert of.spec.reimage is not None
    return replace(of, spec=of.spec.replace(reimage=of.spec.reimage.replace(**changes)))


def deadlines(of: Node, **changes: int) -> Node:
    """The same node with other deadlines."""
    limits = of.spec.reprovision.deadlines.replace(**changes)
    asked = of.spec.reprovision.replace(deadlines=limits)
    return replace(of, spec=of.spec.replace(reprovision=asked))
