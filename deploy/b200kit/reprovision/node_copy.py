"""The node's own copy of its transaction: what another controller must know before it begins.

/var/lib/b200kit/reprovision.json: who reprovisions the node, the attempts, and the digest of the
newest action in the log. Best effort to write, as the node may be what is broken. Every observation
brings it (`notes.reprovision`), so that `b200 audit verify` can compare it with the controller's.

Between two controllers that share no directory the node's lock decides. A boot frees that; so a
node that its owner has just booted, by the copy, is left to him for as long as a boot may take.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

from b200kit.node.lib import documents, timestamp
from b200kit.node.lib.documents import understood, unstructure
from b200kit.node.state.drift import File
from b200kit.reprovision import copy_comparison
from b200kit.reprovision.escalation import Attempt
from b200kit.reprovision.ledger import Held
from b200kit.reprovision.transaction import Transaction
from b200kit.run import process
from b200kit.run.node import Node, duration
from b200kit.run.remote import RemoteError

PATH = "/var/lib/b200kit/reprovision.json"


def put(node: Node, tx: Transaction) -> str | None:
    """Leave the transaction as it is now on the node; the digest it is known by, if it answered."""
    deadlines = node.spec.reprovision.deadlines
    document = {
        **copy_comparison.of_transaction(tx),
        "at": timestamp.now(),
        "boot_id": node.boot_id,
        "process": unstructure(process.this()),
        "boots_within_s": max(deadlines.reboot, deadlines.power_cycle),
    }
    try:
        node.connected().put([File(PATH, json.dumps(document, sort_keys=True).encode())])
    except RemoteError:
        return None
    return str(document["audit"])


def read(node: Node) -> dict[str, Any]:
    """The copy on the node; empty where there is none or it cannot be understood."""
    with contextlib.suppress(RemoteError, ValueError):
        raw = node.connected().run(f"cat {PATH} 2>/dev/null || echo null", timeout=30)
        found = documents.parse(raw, documents.LARGE)
        if isinstance(found, dict) and found.get("schema") == copy_comparison.SCHEMA:
            return found
    return {}


def refuse_if_held(node: Node, document: dict[str, Any]) -> None:
    """Raise Held where another controller has taken the node out and its boot is young."""
    owner = document.get("owner")
    if not isinstance(owner, dict) or document.get("boot_id") in (None, node.boot_id):
        return
    mine = document.get("process") == unstructure(process.this())
    if mine or process.is_dead(document.get("process")):
        return
    uptime = float(node.connected().run("cat /proc/uptime", timeout=30).split()[0])
    left = float(document.get("boots_within_s") or 0) - uptime
    if left > 0:
        raise Held(
            f"{owner.get('owner')} has been reprovisioning this node since {owner.get('since')}, "
            "from another directory of transactions, and it has just booted: wait for "
            f"{duration(left)}"
        )


def attempts(document: dict[str, Any]) -> tuple[Attempt, ...]:
    """Attempts in the node's copy."""
    found = (understood(Attempt, entry) for entry in document.get("attempts", []))
    return tuple(one for one in found if one)


def merged(known: tuple[Attempt, ...], on_node: tuple[Attempt, ...]) -> tuple[Attempt, ...]:
    """What the controller knows and what only the node's copy has, oldest first."""
    ids = {attempt.id for attempt in known}
    return tuple(sorted((*known, *(t for t in on_node if t.id not in ids)), key=lambda t: t.at))
