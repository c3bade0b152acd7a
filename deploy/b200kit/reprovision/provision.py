"""The whole of deploy/b200.py for one node, inside one operation: for a node that is mended.

The same stages in the same order, with the same judgements between them (a test holds both to it).
What ends the bring-up of a node there is raised here: the ladder may have another rung.
"""

from __future__ import annotations

from collections.abc import Callable

from b200kit.node.state.verdict import Verdict
from b200kit.operations import gate, steps
from b200kit.run.node import Node
from b200kit.stages import bandwidth, driver, pipeline, smoke

# What follows a stage, as the lines of deploy/b200.py have it.
AFTER: dict[str, Callable[[Node], None]] = {
    driver.STAGE.name: steps.reboot_now,
    bandwidth.STAGE.name: lambda node: gate.require(node, steps.observed),
    smoke.STAGE.name: lambda node: gate.require_served_well(node, steps.observed),
}


def run(node: Node) -> None:
    """Bring the node up; raises what a stage raises. A node judged red has that outcome."""
    node.second_chance()
    for stage in pipeline.STAGES:
        steps.converge_now(node, stage)
        if stage.name in AFTER:
            AFTER[stage.name](node)
        if node.outcome is not None:
            return


def judged(node: Node, fresh: bool = True) -> Verdict:
    """The verdict on a node that serves, as deploy/check.py would give it; of a *fresh* look."""
    if fresh:
        node.state = None
    return gate.judged(node, steps.observed, serving=True)
