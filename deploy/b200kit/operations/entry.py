"""What every entry file begins with: the node that belongs to pyinfra's current host."""

from __future__ import annotations

from pyinfra.api.host import Host
from pyinfra.context import ctx_state

from b200kit.operations import preflight, pyinfra_cost
from b200kit.run.node import Node
from b200kit.run.remote import Remote
from b200kit.run.session import RUN


def node_of(host: Host) -> Node:
    """The run's node for *host*.

    An inventory that does not call `preflight.attach()` is checked here: late, but before a change.
    """
    state = ctx_state.get()
    pyinfra_cost.lower()
    preflight.attach()
    preflight.check_all(state)
    node = RUN.nodes[host.name]
    if node.remote is None:
        # pyinfra gives deploy code a context object; the host itself is in the inventory.
        node.remote = Remote(host.inventory.get_host(host.name), node.spec.stage_timeout_s)
    return node
