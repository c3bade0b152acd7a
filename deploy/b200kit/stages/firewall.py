"""Firewall: deny what comes in but for the inventory's exceptions, and never shut ourselves out.

The rules are tried before they are kept: the node loads them with a timer running that brings back
what was there before, and only a new connection of this run stops it. Established connections
prove nothing, as they pass any rules. What cannot be reached any more mends itself.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from b200kit.converge.stage import Change, DesiredState, Stage, converge
from b200kit.inventory import firewall, group
from b200kit.inventory.keys.parts import Firewall
from b200kit.node.facts import nft_rules
from b200kit.node.facts.nft_rules import TABLE
from b200kit.node.placement.layout import Replica
from b200kit.node.state import drift
from b200kit.node.state.drift import File, NodeUnit, Package
from b200kit.run.node import Node, StageFailed, duration
from b200kit.run.remote import RemoteError
from b200kit.run.render import render

UNIT = "b200-firewall.service"
RULES = "/etc/b200kit/firewall.nft"
# b200kit/node/host/firewall_trial.py: rules lie here until they are proven.
_TRIAL = "/run/b200kit/firewall-trial.nft"
# Of the node's own roll-back: systemd's timer is exact to a second, and nft takes no time.
_GRACE_S = 5
_PATIENCE_S = 60
_RETRY_S = 1.0
_NOMINAL_SSH = (22,)


def desired(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """nftables, the unit that loads our table at boot, and the rules; nothing when not asked."""
    del layout
    requested = firewall.opened(node.spec)
    if requested is None:
        return DesiredState()
    unit = render(f"systemd/{UNIT}.j2", trial=_TRIAL, kept=RULES, table=TABLE)
    files = (
        File(f"/etc/systemd/system/{UNIT}", unit, notify=("daemon-reload",)),
        _rules_file(node, requested),
    )
    return DesiredState(
        files=files,
        packages=(Package("nftables"),),
        units=(NodeUnit(UNIT),),
        observe_request={"firewall": True},
    )


def expected(node: Node) -> dict[str, Any]:
    """What the gate judges: every opening; the ports of SSH are the node's own."""
    requested = firewall.opened(node.spec)
    return {"firewall": None if requested is None else _entries(node, requested)}


def _entries(node: Node, requested: Firewall) -> list[dict[str, Any]]:
    """Every opening: the inventory's, and what the members of a group need of each other."""
    return [*firewall.entries(requested), *group.openings(node.spec.group, node.name)]


def rules(node: Node, requested: Firewall) -> list[str]:
    """The rules as the kernel must list them; StageFailed when SSH's port is unknown."""
    return nft_rules.lines(_entries(node, requested), _ssh_ports(node))


def _ssh_ports(node: Node) -> Sequence[int]:
    """Where sshd listens, and where this run came in; the usual one before anything was seen."""
    if node.state is None:
        return _NOMINAL_SSH
    reading = _observed(node).get("ssh_ports")
    if isinstance(reading, list) and reading:
        return reading
    why = reading.get("unmeasured") if isinstance(reading, dict) else "no port was found"
    raise StageFailed(f"which port SSH uses is unknown, so nothing was changed: {why}")


def _observed(node: Node) -> dict[str, Any]:
    """The node's own reading of its firewall."""
    reading = (node.state or {}).get("firewall")
    return reading if isinstance(reading, dict) else {}


def _rules_file(node: Node, requested: Firewall) -> File:
    # The chain itself stands in the template.
    return File(
        RULES, render("host/firewall.nft.j2", table=TABLE, rules=rules(node, requested)[1:])
    )


def plan(node: Node) -> list[Change]:
    """The unit first; then the rules, when file or kernel has others; then the unit enabled."""
    requested = firewall.opened(node.spec)
    if requested is None:
        return []
    target, state = desired(node, ()), node.state or {}
    unit, script = target.files
    changes = converge(node, DesiredState(files=(unit,), packages=target.packages))
    kept = not drift.changed_files([script], state, node.nonce)
    if kept and _observed(node).get("rules") == rules(node, requested):
        return changes + converge(node, DesiredState(units=target.units))
    ports = [f"{allow.protocol} {allow.port}" for allow in requested.allow]
    opened = ", ".join(["SSH", *dict.fromkeys(ports)])
    what = f"open {opened} and deny all else, proven over a new connection"
    return [*changes, Change(what, partial(_apply, script=script, after=requested.rollback_s))]


def _apply(node: Node, script: File, after: int) -> str:
    """Try the rules, prove them, keep them; or wait until the node has taken them back."""
    remote = node.connected()
    started = time.monotonic()
    remote.program(f"firewall try --after {after}", stdin=script.content.decode())
    message = "the new rules let no new connection in"
    try:
        remote.connect_fresh()
        if time.monotonic() - started >= after:
            raise RemoteError(f"none within {duration(after)}")
        message = "the new rules could not be kept"
        remote.program("firewall keep")
    except RemoteError as error:
        raise StageFailed(f"{message} ({error}); {_taken_back(node, started, after)}") from None
    return "in force, proven over a new connection"


def _taken_back(node: Node, started: float, after: int) -> str:
    """Wait for the node's own roll-back and say what became of it."""
    back = started + after + _GRACE_S
    while time.monotonic() < back:
        time.sleep(_RETRY_S)
    while time.monotonic() < back + _PATIENCE_S:
        try:
            node.connected().connect_fresh()
        except RemoteError:
            time.sleep(_RETRY_S)
            continue
        return f"the node took them back after {duration(after)}, and is as it was"
    return (
        f"the node was to take them back after {duration(after)}, and still does not answer: "
        f"look at {node.spec.console}"
    )


STAGE = Stage(name="firewall", desired=desired, plan=plan)
