"""The node's own copy of its transaction: what another controller must know before it begins.

/var/lib/b200kit/reprovision.json: who reprovisions the node until when, the attempts, and the
digest of the newest action in the log. Best effort to write, as the node may be what is broken; one
that says another owner holds the node is believed.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

from b200kit.inventory.keys.levels import Level
from b200kit.node.lib import timestamp
from b200kit.node.state.drift import File
from b200kit.reprovision import transaction
from b200kit.reprovision.escalation import Attempt
from b200kit.reprovision.transaction import Transaction
from b200kit.run.node import Node
from b200kit.run.remote import RemoteError

PATH = "/var/lib/b200kit/reprovision.json"
SCHEMA = "b200kit/reprovision/1"


def put(node: Node, tx: Transaction) -> None:
    """Leave the transaction as it is now on the node, if it answers."""
    document = {
        "schema": SCHEMA,
        "at": timestamp.now(),
        "tx": tx.id,
        "state": tx.state.value,
        "owner": tx.owner,
        "attempts": [
            {"level": t.level.word, "at": t.at, "outcome": t.outcome, "id": t.id}
            for t in tx.attempts
        ],
        "audit": tx.digests[-1] if tx.digests else None,
    }
    with contextlib.suppress(RemoteError):
        node.connected().put([File(PATH, json.dumps(document, sort_keys=True).encode())])


def read(node: Node) -> dict[str, Any]:
    """The copy on the node; empty where there is none or it cannot be understood."""
    with contextlib.suppress(RemoteError, ValueError):
        raw = node.connected().run(f"cat {PATH} 2>/dev/null || echo null", timeout=30)
        found = json.loads(raw)
        if isinstance(found, dict) and found.get("schema") == SCHEMA:
            return found
    return {}


def attempts(document: dict[str, Any]) -> tuple[Attempt, ...]:
    """Attempts in the node's copy."""
    found = []
    for entry in document.get("attempts", []):
        with contextlib.suppress(KeyError, TypeError, ValueError):
            level, at = Level.parse(entry["level"]), float(entry["at"])
            found.append(Attempt(level, at, str(entry["outcome"]), str(entry["id"])))
    return tuple(found)


def merged(known: tuple[Attempt, ...], on_node: tuple[Attempt, ...]) -> tuple[Attempt, ...]:
    """What the controller knows and what only the node's copy has, oldest first."""
    ids = {attempt.id for attempt in known}
    return tuple(sorted((*known, *(t for t in on_node if t.id not in ids)), key=lambda t: t.at))


def holder(document: dict[str, Any], who: str, now: str) -> dict[str, Any] | None:
    """Somebody else who reprovisions the node now, by the node's copy."""
    owner = document.get("owner")
    if not isinstance(owner, dict) or not document.get("tx") or owner.get("owner") == who:
        return None
    until = owner.get("until")
    current = isinstance(until, str) and transaction.seconds(until) > transaction.seconds(now)
    return owner if current else None
