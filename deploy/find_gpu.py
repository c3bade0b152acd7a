"""Find the GPU behind wrong answers:  pyinfra inventories/prod.py deploy/find_gpu.py -y --limit n7

On a node that is drained: its GPUs are moved under its replicas, one place a round, and each
replica's answers compared with the node's reference; then the ordinary layout is put back. The
GPU whose answers are wrong wherever it is, is named, or the replica that they stay with.
"""

from __future__ import annotations

from pyinfra.context import config, host

from b200kit.operations import steps
from b200kit.operations.entry import node_of
from b200kit.stages import pipeline
from b200kit.tuning.wrong_gpu import WrongGpuSearch

config.REQUIRE_PYINFRA_VERSION = ">=3.10,<4"

# Rounds of restarts are one operation; its commands have limits of their own.
_DAY_S = 24 * 3600

node = node_of(host)
search = WrongGpuSearch(node)

steps.observe(name="Observe", node=node)
steps.require_proven(name="Prove", node=node)
steps.converge(name="Find the GPU", node=node, stage=search.turn, _timeout=_DAY_S)
steps.converge(name="Put back", node=node, stage=search.clear)
for step in host.loop(pipeline.SERVING[:-1]):
    steps.run(name=step.title, node=node, step=step)
steps.converge(name="Verdict", node=node, stage=search.verdict)
steps.judge(name="Judge", node=node)
