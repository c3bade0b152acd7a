"""Reboot the node: done when it answers with another boot id and the host key that is pinned."""

from __future__ import annotations

from typing import Any

from b200kit.operations import reboot
from b200kit.reprovision.actions import ActionFailed, Say
from b200kit.reprovision.ledger_line import IntentLine
from b200kit.run.node import Node
from b200kit.run.remote import RemoteError


class RebootNode:
    """By the operating system itself; one that hangs needs the power cycle above it."""

    def facts(self, node: Node) -> dict[str, Any]:
        """The boot that is to end."""
        try:
            return {"boot_id": reboot.boot_id(node.connected())}
        except RemoteError as error:
            raise ActionFailed(f"its boot id cannot be read: {error}") from None

    def probe(self, node: Node, intent: IntentLine) -> str | None:
        """Another boot than the intent's has answered."""
        now = self.facts(node)["boot_id"]
        return None if now == intent.boot_id else f"it runs another boot, {now}"

    def perform(self, node: Node, intent: IntentLine, say: Say) -> str:
        """Reboot and wait for it."""
        limit = node.spec.reprovision.deadlines.reboot
        say(f"rebooting; it has {limit} s to come back")
        try:
            reboot.begin(node.connected())
            return reboot.wait_until_back(node, intent.boot_id, limit)
        except RemoteError as error:
            raise ActionFailed(str(error)) from None
        finally:
            node.state = None


ACTION = RebootNode()
