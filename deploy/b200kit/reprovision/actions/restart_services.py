"""Restart the services: what serves was stopped, the driver's daemons start again in order.

The replicas are started by the stages that follow, as on any run: warm before the gateway opens.
"""

from __future__ import annotations

from typing import Any

from b200kit.reprovision.actions import Intent, Say, daemons
from b200kit.run.node import Node


class Restart:
    """The level of least cost; a restart leaves no trace, and a second one costs nothing."""

    def facts(self, node: Node) -> dict[str, Any]:
        """None are needed."""
        del node
        return {}

    def probe(self, node: Node, intent: Intent) -> str | None:
        """By the note that the node has of the action."""
        return daemons.done(node, intent)

    def perform(self, node: Node, intent: Intent, say: Say) -> str:
        """Stop them, start them, and wait for the fabric."""
        limit = node.spec.reprovision.deadlines.restart_services
        return daemons.run(node, intent, "restart", limit, say)


ACTION = Restart()
