"""What a transaction brings its node to: what the inventory asks, or what the node served.

Once a change was bad, the node goes back to what it served, and a repair keeps it there until the
inventory asks for something else.
"""

from __future__ import annotations

from b200kit.inventory import served as documents
from b200kit.inventory.served import NoWayBack
from b200kit.inventory.spec import NodeSpec
from b200kit.reprovision.planned_change import PlannedChange, Work
from b200kit.reprovision.transaction import Transaction
from b200kit.run.node import Node
from b200kit.stages import served


def target(spec: NodeSpec) -> str:
    """The digest of what a spec asks a node to serve."""
    return documents.digest(served.document(spec))


def way_back(spec: NodeSpec, change: PlannedChange) -> NodeSpec:
    """What the node served before a change. Raises NoWayBack."""
    if change.before is not None and documents.digest(change.before) == change.target:
        raise NoWayBack("the inventory asks for what it served before")
    return served.restored(spec, change.before)


def use(node: Node, tx: Transaction) -> None:
    """Have all that is done to the node now be done with the spec of this transaction."""
    spec = _spec(node.inventory_spec, tx)
    if spec != node.spec:
        # What was observed is what the other spec asked for.
        node.spec, node.state = spec, None


def _spec(asked: NodeSpec, tx: Transaction) -> NodeSpec:
    change = tx.change
    if change is None or not change.failed or not tx.is_open:
        return asked
    if tx.work is Work.REPAIR and change.target != target(asked):
        return asked
    try:
        return way_back(asked, change)
    except NoWayBack:
        # Whoever needs it asks for it, and says why there is none.
        return asked
