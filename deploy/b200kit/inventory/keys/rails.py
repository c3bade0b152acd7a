"""The key `rails`: how a node is wired to the network between nodes, and what cannot be. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.keys.types import Keys, Text, matching


class Rail(Keys):
    """One port of the network between nodes. Rail 3 of every node is meant to meet rail 3 of all
    others.
    """

    rail: int = Field(ge=0, le=63)
    """number of the rail"""
    hca: Annotated[str, matching(r"[A-Za-z0-9_.-]{1,32}", 'an RDMA device such as "mlx5_0"')]
    """RDMA device, as /sys/class/infiniband names it"""
    hca_port: int = Field(1, ge=1, le=8)
    """port of that device"""
    leaf: Text | None = None
    """switch that the port is cabled to, by the name that it sends by LLDP"""
    port: Text | None = None
    """port of that switch, by its LLDP id or description"""
    gbit: int = Field(ge=1, le=3200)
    """line rate, Gbit/s"""
    mtu: int | None = Field(None, ge=1280, le=65_520)
    """MTU of its interface; None: not judged"""
    lossless: bool
    """True: PFC on `priority`, DSCP trusted; False: no PFC wanted, as with adaptive routing"""
    tclass: int | None = Field(None, ge=0, le=255)
    """traffic class of RDMA traffic, DSCP times 4 plus ECN: 106 is DSCP 26; None: unmarked"""
    priority: int | None = Field(None, ge=0, le=7)
    """priority that marked traffic is to arrive on; None: not judged"""


def problems(rails: Sequence[Rail]) -> Iterator[Problem]:
    """Two rails on one port, half a marking, leaves for some alone."""
    numbers: dict[int, int] = {}
    ports: dict[tuple[str, int], int] = {}
    for at, rail in enumerate(rails):
        if numbers.setdefault(rail.rail, at) != at:
            yield Problem(f"rails.{at}.rail", f"{rail.rail} is given twice")
        if (first := ports.setdefault((rail.hca, rail.hca_port), at)) != at:
            message = f"port {rail.hca_port} of {rail.hca} is rail {rails[first].rail}'s already"
            yield Problem(f"rails.{at}.hca", message)
        if rail.lossless and (rail.priority is None or rail.tclass is None):
            missing = "priority" if rail.priority is None else "tclass"
            message = "is required where lossless is True: what is to be lossless"
            yield Problem(f"rails.{at}.{missing}", message)
        elif rail.priority is not None and rail.tclass is None:
            yield Problem(
                f"rails.{at}.tclass", "is required with priority: what is to arrive there"
            )
        if rail.port and not rail.leaf:
            yield Problem(f"rails.{at}.leaf", "is required with port: the switch that it is of")
