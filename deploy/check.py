"""Is each node fit to go live, and if not, why?  pyinfra inventories/prod.py deploy/check.py

Read-only: one observation a node, judged on the controller; nothing on the node is changed.
"""

from __future__ import annotations

from pyinfra.context import config, host

from b200kit.operations import steps
from b200kit.operations.entry import node_of

config.REQUIRE_PYINFRA_VERSION = ">=3.10,<4"

node = node_of(host)

# One operation: pyinfra would hold every node at a second one until the slowest had been observed.
steps.judge(name="Check", node=node)
