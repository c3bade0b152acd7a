"""The inventory keys for how a fleet that serves is changed: order and limits. Pure.

They hold for every node that leaves service on purpose, for a change or for a repair.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from b200kit.inventory.keys.types import Keys, Listed, Text


class Rollout(Keys):
    """How nodes that serve are taken out, changed and returned (docs/upgrade.md)."""

    canary: int = Field(1, ge=0, le=10_000)
    """nodes that are changed first, one after another; 0: none"""
    max_out: int = Field(1, ge=1, le=10_000)
    """nodes out of service at once, for a change or a repair; a group of nodes counts as one wave
    of its own where it has more"""
    floor: int | None = Field(None, ge=0, le=10_000)
    """nodes that must stay in service; all of the inventory less max_out when None"""
    share_percent: int = Field(5, ge=1, le=100)
    """percentage of a whole node's load that a node receives first when it comes back"""
    watch_s: int = Field(60, ge=0, le=86_400)
    """how long it is observed at that percentage, in seconds"""
    stop_after: int = Field(1, ge=1, le=10_000)
    """nodes on which the change is bad before no further node is changed"""
    by: Literal["rack"] | None = None
    """rack: nodes that are out at once are of one `rack`"""

    def least(self, nodes: int) -> int:
        """How many of so many nodes must stay in service."""
        return max(0, nodes - self.max_out) if self.floor is None else self.floor


class RolloutKeys(Keys):
    """The keys of a node about its part in a rollout, a part of its spec."""

    rollout: Rollout = Rollout()
    """how a fleet that serves is changed"""
    rollout_action: Literal["auto", "resume", "abort"] = "auto"
    """auto: a change that was bad on a node stops until the inventory asks for another one; resume:
    try it again; abort: nodes that are out for it go back to what they served, no other is changed
    """
    remove: Listed[Literal["driver", "weights"]] = ()
    """what deploy/remove.py takes away besides b200kit itself (docs/remove.md): driver, with the
    container toolkit; weights: the models in their folder
    """
    rack: Text | None = None
    """the part of the site that fails together with this node"""
