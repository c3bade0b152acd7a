"""Measure the latency of nodes that serve:  pyinfra inventories/prod.py deploy/smoke.py -y

Always measures, after proving that the node is still fit, and judges its replicas' placement as
b200.py does. It changes nothing but the record of the result, unless the node is not fit any more:
then it stops serving there.
"""

from __future__ import annotations

from pyinfra.context import config, host

from b200kit.operations import steps
from b200kit.operations.entry import node_of
from b200kit.stages import pipeline

config.REQUIRE_PYINFRA_VERSION = ">=3.10,<4"

node = node_of(host)
node.spec = node.spec.replace(smoke_always=True)

steps.observe(name="Observe", node=node)
steps.require_proven(name="Prove", node=node)
for step in host.loop(pipeline.MEASURING):
    steps.run(name=step.title, node=node, step=step)
steps.conclude(name="Live", node=node)
