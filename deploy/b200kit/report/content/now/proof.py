"""What the proof on a node says now: valid, expiring, expired, or that there is none. Pure.

It is read as it lies there; who must rely on it verifies its signature (`b200 proof verify`). A
proof of another boot or of another node is none, whatever it says of itself. Times are compared by
the node's own clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from b200kit.node.lib import timestamp
from b200kit.report.document import Unmeasured, integer, items, mapping, read, show

SCHEMA = "b200kit/proof/1"
VALID, EXPIRING, EXPIRED, NONE, UNKNOWN = "valid", "expiring", "expired", "none", "unknown"


@dataclass(frozen=True, slots=True)
class ProofNow:
    """*state* is one of the words above, *why* what is the matter with it, *until* when it ends.

    *replicas*: those that it is about, by index.
    """

    state: str
    why: str = ""
    until: datetime | None = None
    replicas: frozenset[int] = frozenset()

    @property
    def holds(self) -> bool:
        """Whether what serves under it is proven."""
        return self.state in (VALID, EXPIRING)


def proof_now(standing: object, name: str) -> ProofNow:
    """The proof in a node's standing document; *name* is what the inventory calls the node."""
    proof = read(standing, "proof")
    if isinstance(proof, Unmeasured):
        return ProofNow(UNKNOWN, f"its proof could not be read: {proof.reason}")
    if proof is None:
        return ProofNow(NONE, "no proof lies on it: what serves there is not proven")
    if read(proof, "schema") != SCHEMA:
        return ProofNow(UNKNOWN, f"its proof is no document of schema {SCHEMA}")
    if (boot := read(standing, "boot_id")) != read(proof, "boot_id") or not isinstance(boot, str):
        return ProofNow(EXPIRED, "its proof is of another boot")
    if read(proof, "node") != name:
        return ProofNow(EXPIRED, f"its proof is of another node, {show(read(proof, 'node'))}")
    return _by_time(proof, standing)


def _by_time(proof: object, standing: object) -> ProofNow:
    at, until = moment(read(standing, "at")), moment(read(proof, "valid_until"))
    if at is None or until is None:
        return ProofNow(UNKNOWN, "its proof does not say until when it is valid")
    word = read(proof, "standing")
    over = until <= at or word == EXPIRED
    which = ", ".join(_lacking(proof, at) if over else _first(proof))
    replicas = frozenset(
        index for one in items(read(proof, "serving", "replicas"))
        if (index := integer(one)) is not None
    )  # fmt: skip
    if over:
        return ProofNow(EXPIRED, f"its proof expired{which and ': '}{which}", until, replicas)
    if word not in (VALID, EXPIRING):
        return ProofNow(UNKNOWN, f"its proof stands as {show(word)}", until, replicas)
    why = f"its proof expires{which and ': '}{which}" if word == EXPIRING else ""
    return ProofNow(str(word), why, until, replicas)


def _lacking(proof: object, at: datetime) -> Iterator[str]:
    """The evidence that is asked for and does not hold."""
    for entry in _evidence(proof):
        until, result = moment(entry.get("valid_until")), entry.get("result")
        if result != "pass":
            yield f"{show(entry.get('kind'))} {show(result)}"
        elif until is None or until <= at:
            yield show(entry.get("kind"))


def _first(proof: object) -> list[str]:
    """The evidence that ends first."""
    ends = [(until, entry) for entry in _evidence(proof)
            if (until := moment(entry.get("valid_until")))]  # fmt: skip
    return [show(min(ends, key=lambda one: one[0])[1].get("kind"))] if ends else []


def _evidence(proof: object) -> list[dict[str, object]]:
    found = map(mapping, items(read(proof, "evidence")))
    return [entry for entry in found if entry.get("required") is not False]


def moment(stamp: object) -> datetime | None:
    """A time as documents have it, in UTC; None for what is none."""
    try:
        return timestamp.parse(stamp).astimezone(timestamp.UTC) if isinstance(stamp, str) else None
    except (ValueError, OverflowError):
        return None
