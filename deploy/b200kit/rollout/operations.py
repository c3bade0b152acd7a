"""The pyinfra operations of a rollout in deploy/b200.py: which nodes wait, then wave after wave.

Nodes that serve nobody, and changes that interrupt nothing, go through the pipeline between the
two, side by side.
"""

from __future__ import annotations

from pyinfra.api.operation import operation

from b200kit.operations import steps
from b200kit.operations.steps import Commands, command, executing, guarded
from b200kit.rollout import explain, run
from b200kit.rollout.entries import ENTRIES, FORESEEN
from b200kit.run.node import Node
from b200kit.run.session import RUN
from b200kit.stages import pipeline
from b200kit.stages.pipeline import PipelineStep


@operation(is_idempotent=True)
def plan(node: Node) -> Commands:
    """Decide whether the node waits for a wave."""
    if executing():
        yield command(node, run.STAGE, lambda: run.plan(node, ENTRIES))
    elif node.record.outcome is None:
        guarded(node, run.STAGE, lambda: run.plan(node, FORESEEN))


@operation(is_idempotent=True)
def step(node: Node, step: PipelineStep) -> Commands:
    """A step of the pipeline; of a node that waits for its wave what is fetched meanwhile."""
    waits, foreseen = ENTRIES.waiting.get(node.name), FORESEEN.waiting.get(node.name)
    if waits is None or (waits.fetches_ahead and step in pipeline.AHEAD):
        drained = foreseen is not None and foreseen.drains_first
        yield from steps.run._inner(node, step, drained)


@operation(is_idempotent=True)
def conclude(node: Node) -> Commands:
    """The node came through every stage, unless it waits for its wave."""
    if node.name not in ENTRIES.waiting:
        yield from steps.conclude._inner(node)


@operation(is_idempotent=True)
def waves(node: Node) -> Commands:
    """Change the node in its wave; a dry run says the waves after its last node."""
    if executing():
        if node.name in ENTRIES.waiting:
            yield command(node, run.STAGE, lambda: run.change(node))
    elif node.name in FORESEEN.planned:
        explain.after_last(node, FORESEEN, RUN.nodes)
