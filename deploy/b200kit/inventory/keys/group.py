"""The key `group`: several nodes that serve one model as one engine."""

from __future__ import annotations

from typing import Annotated

from b200kit.inventory.keys.types import Address, Keys, Port, Table, Text, matching, one_of

JOINS = ("pipeline", "tensor", "data")


class Group(Keys):
    """Nodes that serve one model as one engine; every member's inventory has the same."""

    name: Text
    """name of the group"""
    members: Table[Address]
    """its nodes: name in the inventory to address on the network between them"""
    head: Text
    """the member that answers requests, and that the others find"""
    interface: Annotated[
        str, matching(r"[A-Za-z0-9_.=^,-]{1,64}", 'a network interface such as "ens1f0np0"')
    ]
    """interface that has these addresses, for NCCL and gloo"""
    join: Annotated[str, one_of(*JOINS)] = "pipeline"
    """how they share the model: pipeline (layers), tensor (each layer), data (experts; each node
    has requests of its own)"""
    port: Port = 29501
    """port of the head on which members meet"""
    rpc_port: Port = 29550
    """a second one, with join = "data" """
