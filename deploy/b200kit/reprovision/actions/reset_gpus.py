"""Reset the GPUs, all of them at once: the recipe of b200kit/node/maintenance/reset_gpus.py.

NVSwitch connects all eight: one GPU cannot be reset alone without configuring the fabric again.
"""

from __future__ import annotations

from typing import Any

from b200kit.reprovision.actions import Intent, Say, daemons
from b200kit.run.node import Node


class ResetGpus:
    """The level above a restart."""

    def facts(self, node: Node) -> dict[str, Any]:
        """None are needed: the node has a note by the action's id."""
        del node
        return {}

    def probe(self, node: Node, intent: Intent) -> str | None:
        """By that note; a boot forgets it, and has reset the GPUs itself."""
        return daemons.done(node, intent)

    def perform(self, node: Node, intent: Intent, say: Say) -> str:
        """Go through the recipe and wait for the fabric; nothing serves any more."""
        limit = node.spec.reprovision.deadlines.reset_gpus
        return daemons.run(node, intent, "reset", limit, say)


ACTION = ResetGpus()
