"""The key `group`: several nodes that serve one model as one engine."""

from __future__ import annotations

from dataclasses import dataclass

from b200kit.inventory.keys import parsers
from b200kit.inventory.keys.parsers import setting
from b200kit.inventory.keys.parts import PORT

JOINS = ("pipeline", "tensor", "data")


@dataclass(frozen=True)
class Group:
    """Nodes that serve one model as one engine; every member's inventory has the same."""

    name: str = setting(parsers.text, "name of the group")
    members: tuple[tuple[str, str], ...] = setting(
        parsers.table(parsers.address),
        "its nodes: name in the inventory to address on the network between them",
    )
    head: str = setting(parsers.text, "the member that answers requests, and that the others find")
    interface: str = setting(
        parsers.matching(r"[A-Za-z0-9_.=^,-]{1,64}", 'a network interface such as "ens1f0np0"'),
        "interface that has these addresses, for NCCL and gloo",
    )
    join: str = setting(
        parsers.one_of(*JOINS),
        "how they share the model: pipeline (layers), tensor (each layer), "
        "data (experts; each node has requests of its own)",
        "pipeline",
    )
    port: int = setting(PORT, "port of the head on which members meet", 29501)
    rpc_port: int = setting(PORT, 'a second one, with join = "data"', 29550)
