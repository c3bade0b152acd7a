"""The pyinfra operations of a rollout in deploy/b200.py: which nodes wait, then wave after wave.

Nodes that serve nobody, and changes that interrupt nothing, go through the pipeline between the
two, side by side.
"""

from __future__ import annotations

from pyinfra.api.operation import operation

from b200kit.operations.steps import Commands, command, executing, guarded
from b200kit.rollout import explain, run
from b200kit.rollout.entries import ENTRIES, FORESEEN
from b200kit.run.node import Node
from b200kit.run.session import RUN


@operation(is_idempotent=True)
def plan(node: Node) -> Commands:
    """Decide whether the node waits for a wave."""
    if executing():
        yield command(node, run.STAGE, lambda: _plan(node))
    elif node.outcome is None:
        guarded(node, run.STAGE, lambda: run.plan(node, FORESEEN))


def _plan(node: Node) -> None:
    run.plan(node, ENTRIES)
    node.waits = node.name in ENTRIES.waiting


@operation(is_idempotent=True)
def waves(node: Node) -> Commands:
    """Change the node in its wave; a dry run says the waves after its last node."""
    if executing():
        if node.waits:
            yield command(node, run.STAGE, lambda: run.change(node))
    elif node.name in FORESEEN.planned:
        explain.after_last(node, FORESEEN, RUN.nodes)
