"""The whole of deploy/b200.py for one node, inside one operation: for a node that was repaired.

The same steps in the same order. What ends the run of a node there is raised here: there may be
another level of remediation.
"""

from __future__ import annotations

from collections.abc import Callable

from b200kit.node.state.verdict import Verdict
from b200kit.operations import gate, steps
from b200kit.run.node import Node
from b200kit.stages import gateway, pipeline


def run(
    node: Node,
    after_boot: Callable[[], object],
    after_gateway: Callable[[], object] = lambda: None,
) -> None:
    """Bring the node up; raises what a stage raises. A node judged red has that outcome.

    *after_boot* is called once it was rebooted, as what was set on the node before ended with its
    boot; *after_gateway* once its gateway runs.
    """
    node.record.reset()
    for step in pipeline.STEPS:
        before = node.boot_id
        steps.run_now(node, step)
        if node.record.outcome is not None:
            return
        if node.boot_id != before:
            after_boot()
        if step.run is gateway.STAGE:
            after_gateway()


def judged(node: Node, fresh: bool = True) -> Verdict:
    """The verdict on a node that serves, as deploy/check.py would give it; of a *fresh* look."""
    if fresh:
        node.state = None
    return gate.judged(node, steps.observed, serving=True)
