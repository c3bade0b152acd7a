"""The node's lockstep set, from its inventory, its hardware file and its last observation."""

from __future__ import annotations

from b200kit.catalog import hardware
from b200kit.run.node import Node
from b200kit.stages.support import driver_packages
from b200kit.stages.support.driver_packages import Lockstep


def stack(node: Node) -> Lockstep:
    """The set as it must be on this node; before the node was observed, all that it may hold."""
    expect = hardware.load(node.spec.hardware)["expect"]
    ground = driver_packages.ground(node.state) if node.state else None
    return driver_packages.lockstep(node.spec, expect, ground)
