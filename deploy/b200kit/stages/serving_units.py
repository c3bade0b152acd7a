"""What serves on a node, which of it runs now, and how it is stopped."""

from __future__ import annotations

from collections.abc import Sequence

from b200kit.run.node import Node
from b200kit.stages import gateway, serving, watchdog


def units(node: Node) -> list[str]:
    """Every unit that may serve: the gateway first, so that no request finds a replica gone.

    The watchdog goes before it: it would take a replica that is stopped on purpose for a hung one.
    """
    return [watchdog.UNIT, gateway.UNIT, serving.TARGET, *replicas(node)]


def replicas(node: Node) -> list[str]:
    """The units of all replicas that an inventory may have asked for."""
    return [*serving.replica_units(node), *serving.surplus_units(node)]


def running(node: Node, names: Sequence[str]) -> list[str]:
    """Those of some units that run, for all that is known: what was not read is taken to run."""
    observed = (node.state or {}).get("units")
    known = observed if isinstance(observed, dict) and "unmeasured" not in observed else None
    return [name for name in names if known is None or _may_run(known.get(name))]


def _may_run(reading: object) -> bool:
    if reading is None:
        return False
    active = reading.get("active") if isinstance(reading, dict) else None
    return active not in ("inactive", "failed")


def stop(node: Node, names: Sequence[str]) -> None:
    """Stop units, the gateway first: open requests get `stop_grace_s` to end, then what is left."""
    if names:
        limit = node.spec.stage_timeout_s + 3 * node.spec.stop_grace_s
        node.connected().run(f"systemctl stop {' '.join(names)}", timeout=limit)
