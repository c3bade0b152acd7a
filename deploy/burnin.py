"""Is the hardware good?  pyinfra inventories/prod.py deploy/burnin.py -y --limit n7

On nodes that do not serve: tests of four levels (`accept_level`: smoke, standard, acceptance, soak)
load every part, then the network between nodes whose `rails` are declared; what they measured, and
the verdict, is sealed by the nodes and kept in the site's folder acceptance/ (docs/accept.md).
Killed at any moment, it goes on at the segment it was at.
`--dry` tells what it would run and how long that takes at most.
"""

from __future__ import annotations

from pyinfra.context import config, host

from b200kit.acceptance.run import AcceptanceStages
from b200kit.operations import steps
from b200kit.operations.entry import node_of

config.REQUIRE_PYINFRA_VERSION = ">=3.10,<4"

# A run is one operation, longer than what group data allows one; its commands have limits.
_DAY_S = 24 * 3600
_WEEK_S = 7 * _DAY_S

node = node_of(host)
acceptance = AcceptanceStages(node)

steps.observe(name="Observe", node=node)
steps.converge(name="Accept", node=node, stage=acceptance.tests, _timeout=_WEEK_S)
steps.converge(name="Network", node=node, stage=acceptance.network, _timeout=_DAY_S)
steps.converge(name="Verdict", node=node, stage=acceptance.verdict)
