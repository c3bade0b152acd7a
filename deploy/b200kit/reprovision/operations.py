"""The pyinfra operations of deploy/reprovision.py: plan for every node, then those that fail.

Two operations, because pyinfra ends one on every host before it begins the next: how many nodes
fail alike is known before the first is taken out. Reprovisioning is one operation and not a line a
stage: nodes escalate to different levels, wait for each other's turn, and go through the stages
more than once.
"""

from __future__ import annotations

from pyinfra.api.operation import operation

from b200kit.operations.steps import Commands, command, executing, guarded
from b200kit.reprovision import removal
from b200kit.reprovision.run import Repair
from b200kit.run.node import Node


@operation(is_idempotent=True)
def plan(repair: Repair) -> Commands:
    """Look at the node, and say what would be done about it."""
    if executing():
        yield command(repair.node, "plan", lambda: repair.look(lock=True))
    else:
        guarded(repair.node, "plan", lambda: repair.look(lock=False))


@operation(is_idempotent=True)
def reprovision(repair: Repair) -> Commands:
    """Drain, repair, verify and return the node to service, as far as its transaction is."""
    if executing():
        yield command(repair.node, "reprovision", repair.reprovision)


@operation(is_idempotent=True)
def removed(node: Node) -> Commands:
    """Nothing of b200kit is on the node."""
    if executing():
        yield command(node, removal.STAGE.name, lambda: removal.conclude(node))
