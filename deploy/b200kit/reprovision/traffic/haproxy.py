"""The gateways: those of the other nodes first, which send this one its share, then its own.

The others are reached by their admin sockets, over SSH, whether the run is about them or not. One
that cannot be reached is reported and not waited for: its own health check stops it within seconds,
for the node's own gateway then answers 503. How many streams are open only this node's gateway
knows.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from b200kit.node.lib import documents
from b200kit.reprovision.actions import ActionFailed
from b200kit.run.node import Node
from b200kit.run.remote import Remote, RemoteError

_WITHIN_S = 60


class HAProxy:
    """The traffic of the toolkit's own gateways."""

    name = "haproxy"

    def drain(self, node: Node, why: str) -> str:
        """Drain it at the fleet's other gateways, then drain all that is behind its own."""
        del why
        results = _gateways(node, f"rotation drain {shlex.quote(node.name)}")
        own = _own(node, "drain begin")
        return "; ".join([*results, own])

    def status(self, node: Node) -> int | None:
        """Open streams at the node's gateway, by HAProxy's own numbers."""
        try:
            said = node.connected().program("drain count", timeout=_WITHIN_S)
            counted = documents.decode(documents.Object, said)
        except (RemoteError, ValueError):
            return None
        found = counted.get("open")
        return found if type(found) is int else None

    def undrain(self, node: Node, share_percent: int) -> str:
        """Its own gateway first, so that whoever sends it requests finds it open.

        The node says its share itself from then on; the others need not wait until they ask it.
        """
        words = [f"share set {share_percent}", "drain end"]
        if is_behind_itself(node):
            words.append(f"rotation share {shlex.quote(node.name)} {share_percent}")
        own = [_own(node, each) for each in words]
        results = _gateways(node, f"rotation share {shlex.quote(node.name)} {share_percent}")
        return "; ".join(filter(None, [*own, *results]))

    def cut(self, node: Node) -> str:
        """Streams end with the services of the node that has them."""
        del node
        return ""


def is_behind_itself(node: Node) -> bool:
    """Whether the node has the fleet's endpoint, with itself behind it."""
    fleet = node.spec.fleet
    return fleet is not None and node.name in [each.name for each in fleet.nodes]


def set_apart(node: Node) -> None:
    """Send a node that is on trial nothing by its own endpoint of the fleet.

    The other gateways know; its own has forgotten where it was rebooted, and whoever asked that
    endpoint meanwhile would be served, and measured, by what nobody has proven yet.
    """
    if is_behind_itself(node):
        _own(node, f"rotation drain {shlex.quote(node.name)}")


def _own(node: Node, words: str) -> str:
    if node.unreachable:
        return "its own gateway does not answer"
    try:
        return node.connected().program(words, timeout=_WITHIN_S).strip()
    except RemoteError as error:
        raise ActionFailed(f"its gateway: {words}: {error}") from None


def _gateways(node: Node, words: str) -> list[str]:
    """Have every gateway with this node behind it do something; what each came to."""
    return [_each(remote, words) for remote in gateways(node)]


def _each(remote: Remote, words: str) -> str:
    name = remote.host.name
    try:
        remote.ensure_connected()
    except RemoteError as error:
        return f"the gateway of {name} was not changed: {error}"
    try:
        remote.program(words, timeout=_WITHIN_S)
    except RemoteError as error:
        raise ActionFailed(f"the gateway of {name}: {words}: {error}") from None
    return f"{name} done"


def gateways(node: Node) -> Iterator[Remote]:
    """The other hosts whose fleet endpoint has this node behind it."""
    for remote in node.connected().others():
        if is_behind(node.name, remote.host.data.get("fleet")):
            yield remote


def is_behind(name: str, fleet: object) -> bool:
    """Whether a fleet, as an inventory gives it, has a node: it names none, or names this one."""
    if not isinstance(fleet, Mapping):
        return False
    nodes = fleet.get("nodes") or ()
    return not nodes or name in [each.get("name") for each in nodes if isinstance(each, Mapping)]


TRAFFIC = HAProxy()
