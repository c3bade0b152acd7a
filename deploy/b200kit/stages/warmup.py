"""Warm-up: the replicas run, and *active* means *warm*.

The unit's ExecStartPost sends requests until two rounds agree, so `systemctl start` returns when a
replica is warm, and fails when it cannot get there. On a node whose gateway runs, replicas are
restarted one after another behind it (node.pyz rolling-restart), and no request is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from b200kit.converge.stage import Change, DesiredState, Stage, why
from b200kit.node.placement.layout import Replica
from b200kit.node.serving.gateway.rolling_restart import NOTE
from b200kit.node.state import drift
from b200kit.node.state.drift import NodeUnit
from b200kit.run.node import Node
from b200kit.run.remote import RemoteError
from b200kit.serving import gpu_reassignment
from b200kit.stages import gate, gateway, serving, serving_units


def desired(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """Every replica running. They are started by the target at boot, so they need no enabling."""
    del layout
    units = tuple(NodeUnit(unit) for unit in serving.replica_units(node))
    return DesiredState(units=units, absent_files=(str(NOTE),), probe_units=(gateway.UNIT,))


def plan(node: Node) -> list[Change]:
    """Start what does not run; restart what runs with an older configuration, one after another.

    Those that do not run come first: they are missing while another is restarted. Where one holds
    GPUs that another gets, all that serves ends before any starts.
    """
    units = serving.replica_units(node)
    moved = gpu_reassignment.in_the_way(node.state or {}, node.layout())
    if moved:
        message = f"stop what serves: others get the GPUs of {', '.join(moved)}"
        start = Change(f"start {', '.join(units)} and warm up", _bring_up("start", units))
        return [Change(message, _withdraw, ends=tuple(serving_units.units(node))), start]
    running = [unit for unit in units if _is_active(node, unit)]
    stale = [unit for unit in _stale(node) if unit in running]
    idle = [unit for unit in units if unit not in running]
    live = _is_active(node, gateway.UNIT)
    changes = []
    if live and not idle and not stale and drift.is_present(str(NOTE), node.state or {}):
        changes.append(Change("finish a rolling restart that was broken off", _rolling_restart([])))
    if idle:
        act = _rolling_restart(idle) if live else _bring_up("start", idle)
        changes.append(Change(f"start {', '.join(idle)} and warm up", act))
    for unit in stale:
        changes.append(
            Change(
                f"restart {unit}",
                _rolling_restart([unit]) if live else _bring_up("restart", [unit]),
                ends=(unit,),
            )
        )
    return changes


def _withdraw(node: Node) -> None:
    gpu_reassignment.may_stop(node)
    gate.withdraw(node)


def _is_active(node: Node, unit: str) -> bool:
    observed = (node.state or {}).get("units") or {}
    return (observed.get(unit) or {}).get("active") == "active"


def _stale(node: Node) -> list[str]:
    """Units with a pending restart: their files changed since they were started.

    In a run the stage before has written them all; a dry run counts those that it would write.
    """
    state = node.state or {}
    files = serving.desired(node, node.layout()).files
    changed = drift.changed_files(files, state, node.nonce)
    pending = drift.pending_handlers(files, changed, state)
    return [name.partition(":")[2] for name in pending if name.startswith("restart:")]


def _rolling_restart(units: list[str]) -> Callable[[Node], None]:
    """Out of the gateway's rotation, restarted, warm, tried, and back; the markers go with it."""
    numbers = ",".join(unit.partition("@")[2].removesuffix(".service") for unit in units)

    def act(node: Node) -> None:
        each = node.spec.restart_drain_s + node.spec.warm_deadline_s + 240
        node.connected().program(
            f"rolling-restart --config {serving.SERVING} --replicas={numbers}",
            timeout=each * (len(units) + 1),
        )

    return act


def _bring_up(verb: str, units: list[str]) -> Callable[[Node], None]:
    def act(node: Node) -> None:
        names = " ".join(units)
        markers = " ".join(drift.pending_marker(f"restart:{unit}") for unit in units)
        # A unit that failed before must not be refused for having failed too often.
        command = (
            f"systemctl daemon-reload && "
            f"{{ systemctl reset-failed {names} 2>/dev/null; true; }} && "
            f"systemctl {verb} {names} && rm -f {markers}"
        )
        try:
            node.connected().run(command, timeout=node.spec.warm_deadline_s + 120)
        except RemoteError as error:
            message = _cause(node, units) or str(error)
            # Not warm is not serving: systemd would go on restarting what cannot start.
            node.connected().attempt(f"systemctl stop {names}", timeout=120)
            raise RemoteError(message) from None

    return act


def _cause(node: Node, units: list[str]) -> str:
    """What the first replica that is not running says; empty when all run."""
    remote = node.connected()
    for unit in units:
        if not remote.attempt(f"systemctl is-active --quiet {unit}", timeout=20).ok:
            return f"{unit} did not get warm; {why(node, unit)}"
    return ""


STAGE = Stage(name="warm-up", desired=desired, plan=plan)
