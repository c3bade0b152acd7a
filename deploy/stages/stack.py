"""The node's lockstep set, from its inventory, its hardware file and what was seen of it."""

from __future__ import annotations

from deploy import hardware
from deploy.core import lockstep
from deploy.core.lockstep import Lockstep
from deploy.run import Node


def stack(node: Node) -> Lockstep:
    """The set as it must be on this node; before the node was seen, all that it may hold."""
    expect = hardware.load(node.spec.hardware)["expect"]
    ground = lockstep.ground(node.state) if node.state else None
    return lockstep.lockstep(node.spec, expect, ground)
