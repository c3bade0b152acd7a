"""Take b200kit off nodes:  pyinfra inventories/prod.py deploy/remove.py -y --limit n7

Drained first, within the fleet's floor; then units, files, settings, packages and folders go, as
the node's own list has them, and what was in their place comes back (docs/remove.md). Run again, it
changes nothing; killed, the next run goes on. `--dry` says what would go.
"""

from __future__ import annotations

from pyinfra.context import config, host

from b200kit.operations import steps
from b200kit.operations.entry import node_of
from b200kit.reprovision import operations, removal

config.REQUIRE_PYINFRA_VERSION = ">=3.10,<4"

node = node_of(host)

steps.observe(name="Observe", node=node)
steps.converge(name="Remove", node=node, stage=removal.STAGE)
operations.removed(name="Removed", node=node)
