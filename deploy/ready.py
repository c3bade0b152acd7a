"""Can each node be provisioned, and if not, why?  pyinfra inventories/prod.py deploy/ready.py -y

Read-only, before the first change: one observation a node, and its own apt asked about the
inventory's repositories and packages. deploy/b200.py begins with the same.
"""

from __future__ import annotations

from pyinfra.context import config, host

from b200kit.operations import steps
from b200kit.operations.entry import node_of

config.REQUIRE_PYINFRA_VERSION = ">=3.10,<4"

node = node_of(host)

steps.observe(name="Observe", node=node, lock=False)
steps.ready(name="Ready", node=node)
