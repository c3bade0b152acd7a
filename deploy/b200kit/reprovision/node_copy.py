"""The node's own copy of its transaction: what another controller must know before it begins.

/var/lib/b200kit/reprovision.json: who reprovisions the node, the attempts, and the digest of the
newest action in the log. Best effort to write, as the node may be what is broken. Every observation
brings it (`notes.reprovision`), so that `b200 audit verify` can compare it with the controller's.

Between two controllers that share no store the node's lock decides. A boot frees that; so a
node that its owner has just booted, by the copy, is left to him for as long as a boot may take.
"""

from __future__ import annotations

from b200kit.node.lib import documents, timestamp
from b200kit.node.state.drift import File
from b200kit.reprovision.copy_comparison import CopiedTransaction, NodeCopy
from b200kit.reprovision.escalation import Attempt
from b200kit.reprovision.ledger import NodeHeld
from b200kit.reprovision.transaction import Transaction
from b200kit.run import process
from b200kit.run.node import Node, duration
from b200kit.run.remote import RemoteError

PATH = "/var/lib/b200kit/reprovision.json"


def put(node: Node, tx: Transaction) -> str | None:
    """Leave the transaction as it is now on the node; the digest it is known by, if it answered."""
    deadlines = node.spec.reprovision.deadlines
    boots_within_s = float(max(deadlines.reboot, deadlines.power_cycle))
    copied = CopiedTransaction.of(tx)
    copy = NodeCopy(copied, timestamp.now(), node.boot_id, process.this(), boots_within_s)
    try:
        node.connected().put([File(PATH, documents.to_bytes(copy))])
    except RemoteError:
        return None
    return copied.audit


def read(node: Node) -> NodeCopy | None:
    """The copy on the node; None where there is none or it cannot be understood."""
    try:
        raw = node.connected().run(f"cat {PATH} 2>/dev/null || echo null", timeout=30)
        return documents.decode(NodeCopy, raw)
    except (RemoteError, documents.Malformed):
        return None


def refuse_if_held(node: Node, copy: NodeCopy) -> None:
    """Raise Held where another controller has taken the node out and its boot is young."""
    copied = copy.transaction
    if not copied.owner or copy.boot_id in (None, node.boot_id):
        return
    if copy.process == process.this() or process.is_dead(documents.unstructure(copy.process)):
        return
    uptime = float(node.connected().run("cat /proc/uptime", timeout=30).split()[0])
    left = copy.boots_within_s - uptime
    if left > 0:
        raise NodeHeld(
            f"{copied.owner} has been reprovisioning this node since {copied.since}, "
            "from another site, and it has just booted: wait for "
            f"{duration(left)}"
        )


def merged(known: tuple[Attempt, ...], on_node: tuple[Attempt, ...]) -> tuple[Attempt, ...]:
    """What the controller knows and what only the node's copy has, oldest first."""
    ids = {attempt.id for attempt in known}
    return tuple(sorted((*known, *(t for t in on_node if t.id not in ids)), key=lambda t: t.at))
