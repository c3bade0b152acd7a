"""What one event of a transaction looks like on the disk, and in the log of all acts."""

from __future__ import annotations

import json
from typing import Any

from b200kit.reprovision import transaction
from b200kit.reprovision.transaction import Transaction

_KEPT = ("kind", "at", "node", "tx", "who", "run", "step", "id", "rung", "attempt", "of")


def lined(content: bytes, entry: dict[str, Any]) -> bytes:
    """The line of an event, begun anew where a kill left half of one."""
    torn = bool(content) and not content.endswith(b"\n")
    return b"\n" * torn + json.dumps(entry, sort_keys=True).encode() + b"\n"


def audited(tx: Transaction, entry: dict[str, Any]) -> dict[str, Any]:
    """The event as the log has it: who, what, the state before and after, the evidence."""
    kept = {key: entry[key] for key in _KEPT if key in entry}
    pending = tx.pending or {}
    if entry["kind"] in ("done", "failed"):
        kept |= {key: pending.get(key) for key in ("step", "id", "rung") if key in pending}
    after = transaction.applied(tx, entry)
    told = entry.get("seen") or entry.get("why")
    return {
        **kept,
        "before": tx.state.value,
        "after": after.state.value,
        "what": told,
        "evidence": (after.evidence or {}).get("sha256"),
    }
