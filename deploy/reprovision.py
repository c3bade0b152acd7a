"""Drain, repair, verify, return to service:  pyinfra INVENTORY deploy/reprovision.py --limit n7 -y

One transaction a node, on the controller's disk: run it twice or kill it, and the next run
continues where it was. With --dry it prints the plan of each node and touches nothing
(docs/reprovision.md).
"""

from __future__ import annotations

from pyinfra.context import config, host

from b200kit.operations.entry import node_of
from b200kit.reprovision import operations
from b200kit.reprovision.run import Repair

config.REQUIRE_PYINFRA_VERSION = ">=3.10,<4"

repair = Repair(node_of(host))

operations.plan(name="Plan", repair=repair)
operations.reprovision(name="Reprovision", repair=repair)
