"""What one event of a transaction looks like in the log of all actions."""

from __future__ import annotations

from typing import Any

from b200kit.reprovision import transaction
from b200kit.reprovision.transaction import Transaction

_KEPT = ("kind", "at", "node", "tx", "who", "run", "step", "id", "level", "attempt", "of")


def audited(tx: Transaction, entry: dict[str, Any]) -> dict[str, Any]:
    """The event as the log has it: who, what, the state before and after, the evidence."""
    kept = {key: entry[key] for key in _KEPT if key in entry}
    pending = tx.pending or {}
    if entry["kind"] in ("done", "failed"):
        kept |= {key: pending.get(key) for key in ("step", "id", "level") if key in pending}
    after = transaction.applied(tx, entry)
    what = entry.get("result") or entry.get("why")
    return {
        **kept,
        "before": tx.state.value,
        "after": after.state.value,
        "what": what,
        "evidence": (after.evidence or {}).get("sha256"),
    }
