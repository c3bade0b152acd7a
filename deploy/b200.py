"""From a bare OS to a proven, warm, measured server:  pyinfra inventories/prod.py deploy/b200.py -y

pyinfra executes this file once a host. Each step is one operation; a node that fails one leaves the
run and the others continue. Run it again and nothing changes. The steps and their order stand in
b200kit/stages/pipeline.py. Nodes whose service a change would interrupt go through the same steps
in waves at the end (docs/upgrade.md).
"""

from __future__ import annotations

from pyinfra.context import config, host

from b200kit.operations import steps
from b200kit.operations.entry import node_of
from b200kit.rollout import operations as rollout
from b200kit.stages import pipeline

config.REQUIRE_PYINFRA_VERSION = ">=3.10,<4"

node = node_of(host)

steps.observe(name="Observe", node=node)
rollout.plan(name="Rollout", node=node)
# host.loop, and no plain loop: pyinfra orders operations by line number and position in its loops.
for step in host.loop(pipeline.STEPS):
    rollout.step(name=step.title, node=node, step=step)
rollout.conclude(name="Live", node=node)
rollout.waves(name="Waves", node=node)
