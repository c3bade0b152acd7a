"""Out of service, and back: the node's own mark, which its boot gate honours.

`put` first, `close` once it is drained, `admit` before the services are started again to be proven,
`lift` at the end. Each may be repeated. A node that cannot be reached has no mark of its own: the
transaction on the controller stands for it, and whoever sends it work was notified.
"""

from __future__ import annotations

import shlex

from b200kit.reprovision.actions import ActionFailed
from b200kit.run.node import Node
from b200kit.run.remote import RemoteError
from b200kit.stages import gate, serving_units

TRIAL_S = 3 * 3600
"""How long one trial lasts: as long as a run may hold a node's lock."""
# systemd refuses to stop what was never started; one that does not stop is output.
_STOP = (
    'for u in {units}; do case $(systemctl is-active "$u") in inactive|failed|unknown) ;; '
    '*) systemctl stop "$u" || exit 1;; esac; done'
)


def put(node: Node, who: str, why: str) -> str:
    """Mark the node as taken out; it continues to serve what it has. Raises ActionFailed."""
    return _run(node, f"put --who {shlex.quote(who)} --why {shlex.quote(why)}")


def admit(node: Node, who: str, seconds: int = TRIAL_S) -> str:
    """Let its services start for a while, in this boot, so that it can be proven."""
    return _run(node, f"admit --who {shlex.quote(who)} --for {seconds}")


def lift(node: Node, who: str) -> str:
    """Back in service, as far as the node goes."""
    return _run(node, f"release --who {shlex.quote(who)}")


def close(node: Node) -> str:
    """End a trial and stop all that serves, the gate too: what starts a replica is judged again."""
    _run(node, "shut")
    try:
        stop(node)
    except RemoteError as error:
        raise ActionFailed(f"what serves cannot be stopped: {error}") from None
    finally:
        node.state = None
    return "nothing serves"


def stop(node: Node) -> None:
    """Stop what serves of all that may, the gateway first, and the gate. Raises RemoteError."""
    units = [*serving_units.units(node), gate.UNIT]
    node.connected().run(_STOP.format(units=shlex.join(units)), timeout=_stop_s(node))


def _stop_s(node: Node) -> int:
    """A stop lets open streams end, one unit after another."""
    return 120 + (node.spec.stop_grace_s + 60) * (node.spec.replicas + 1)


def _run(node: Node, words: str) -> str:
    try:
        output = node.connected().program(f"quarantine {words}", timeout=120)
    except RemoteError as error:
        raise ActionFailed(f"its quarantine: {error}") from None
    node.state = None
    return output.strip()
