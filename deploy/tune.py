"""Find the layout for the goal:  pyinfra inventories/prod.py deploy/tune.py -y

On a node that b200.py took live and that has no traffic: each layout that can be is deployed as
b200.py would, its request rate swept to the goodput knee by our client; then
the node is put back, and the layout for the goal written as inventory data with its evidence
(docs/tune.md). Killed at any moment, it goes on at the cell it was at. `--dry` tells what it
would try and how long that takes at most.
"""

from __future__ import annotations

from functools import partial

from pyinfra.context import config, host

from b200kit.operations import preflight, steps
from b200kit.operations.entry import node_of
from b200kit.stages import pipeline
from b200kit.tuning.run import TuningRun

config.REQUIRE_PYINFRA_VERSION = ">=3.10,<4"

# A tuning is one operation, longer than what group data allows one; its commands have limits.
_WEEK_S = 7 * 24 * 3600

node = node_of(host)
tuning = TuningRun(node, partial(preflight.parsed, host.inventory.get_host(host.name)))

steps.observe(name="Observe", node=node)
steps.require_proven(name="Prove", node=node)
steps.converge(name="Tune", node=node, stage=tuning.cells, _timeout=_WEEK_S)
steps.converge(name="Put back", node=node, stage=tuning.clear)
for step in host.loop(pipeline.SERVING):
    steps.run(name=step.title, node=node, step=step)
steps.converge(name="Choice", node=node, stage=tuning.choice)
for step in host.loop(pipeline.MEASURING):
    steps.run(name=step.title, node=node, step=step)
steps.conclude(name="Live", node=node)
