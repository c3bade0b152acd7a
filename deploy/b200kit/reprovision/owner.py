"""One owner of a node's transaction at a time, and whether the node serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from b200kit.node.lib import documents
from b200kit.reprovision import node_copy
from b200kit.reprovision.escalation import Attempt
from b200kit.reprovision.fleet_limits import SAFETY
from b200kit.reprovision.ledger import Ledger
from b200kit.reprovision.transaction import Transaction
from b200kit.run import process
from b200kit.run.node import Node
from b200kit.run.remote import RemoteError
from b200kit.run.session import RUN

_WITHIN_S = 60


def ledger_of(node: Node) -> Ledger:
    """The node's transaction, as this run writes it."""
    return Ledger(SAFETY.transactions, node.name, process.owner(), RUN.id)


@contextmanager
def owned(node: Node, ledger: Ledger) -> Iterator[tuple[Transaction, tuple[Attempt, ...]]]:
    """Be the node's one owner meanwhile; afterwards its report and its own copy have the result.

    Yields its transaction and the attempts that its own copy has.
    """
    tx = ledger.claim()
    try:
        attempts = _attempts_on(node)
    except BaseException:
        ledger.release()
        raise
    try:
        yield tx, attempts
    finally:
        released = ledger.release()
        node.record.reprovision = released.report()
        if released.steps and not node.unreachable:
            node_copy.put(node, released)


def _attempts_on(node: Node) -> tuple[Attempt, ...]:
    """Those of the node's copy. Raises Held where a controller of another site has it out."""
    copy = None if node.unreachable else node_copy.read(node)
    if copy is None:
        return ()
    node_copy.refuse_if_held(node, copy)
    return copy.transaction.attempts


def is_set_aside(node: Node) -> bool:
    """Whether the gateway does not run, or sends no replica anything, as a person may have wanted.

    What cannot be determined counts as in rotation.
    """
    gateway = _units(node).get("haproxy.service")
    if isinstance(gateway, dict) and gateway.get("active") in ("inactive", "failed"):
        return not node.headless
    try:
        standing = documents.parse(
            node.connected().program("standing", timeout=_WITHIN_S), documents.LARGE
        )
        replicas = standing["replicas"]
        return bool(replicas) and all(each["takes_requests"] is False for each in replicas)
    except (RemoteError, ValueError, LookupError, TypeError):
        return False


def serves(node: Node) -> bool:
    """Whether a replica runs on it: taking out a node that serves nobody costs nothing."""
    if node.unreachable:
        return False
    return any(
        isinstance(unit, dict) and unit.get("active") == "active"
        for name, unit in _units(node).items()
        if name.startswith("vllm@")
    )


def _units(node: Node) -> Mapping[str, Any]:
    """The units as they were observed last; none where they could not be."""
    units = (node.record.state or {}).get("units")
    return units if isinstance(units, dict) else {}
