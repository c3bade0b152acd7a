"""What every entry file begins with: the node that belongs to pyinfra's current host."""

from __future__ import annotations

import inspect
from pathlib import Path

from pyinfra.api.host import Host
from pyinfra.context import ctx_state

from b200kit.operations import preflight
from b200kit.run.node import Node
from b200kit.run.remote import Remote
from b200kit.run.session import RUN


def node_of(host: Host) -> Node:
    """The run's node for *host*.

    An inventory that does not call `preflight.attach()` is checked here: late, but before a change.
    """
    state = ctx_state.get()
    spare_module_search(state.current_deploy_filename or "")
    preflight.attach()
    preflight.check_all(state)
    node = RUN.nodes[host.name]
    if node.remote is None:
        # pyinfra gives deploy code a context object; the host itself is in the inventory.
        node.remote = Remote(host.inventory.get_host(host.name), node.spec.stage_timeout_s)
    return node


def spare_module_search(file: str) -> None:
    """Spare pyinfra a search for the module of an entry file, which is none.

    For the order of operations it (3.10) has inspect describe the stack of each host and operation,
    and inspect searches all modules, twice, for a file that it has not found before.
    """
    path = str(Path(file).absolute())
    # Not documented: a Python without it only searches longer.
    getattr(inspect, "modulesbyfile", {}).setdefault(path, path)
