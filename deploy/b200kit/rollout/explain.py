"""A rollout as its operator reads it before it begins: waves, cost, floor, the way back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from b200kit.inventory.served import NoWayBack
from b200kit.operations import reboot_policy
from b200kit.reprovision import circuit_breaker, transaction
from b200kit.reprovision.fleet_limits import SAFETY
from b200kit.reprovision.transaction import Transaction
from b200kit.rollout.entries import Entries, WaitingNode
from b200kit.rollout.waves import Wave
from b200kit.run import console
from b200kit.run.node import Node, duration, span
from b200kit.stages import served
from b200kit.store.database import StoreError

# Seconds of the pipeline beside reboot, drain and watch, where no history says it (inferred, from
# the lab, as in b200kit/reprovision/explain.py).
_PIPELINE_S = 300
_STEPS = ("quarantine", "drain", "change", "prove", "share", "return")


def after_last(node: Node, entries: Entries, nodes: Mapping[str, Node]) -> None:
    """Print the rollout below the plan of the last node."""
    entries.shown.add(node.name)
    missing = [
        n for n, other in nodes.items() if n not in entries.shown and other.record.outcome is None
    ]
    if entries.waiting and not missing:
        for line in lines(entries, nodes):
            console.err(f"rollout  {line}")


def lines(entries: Entries, nodes: Mapping[str, Node]) -> Iterator[str]:
    """What is changed, in which waves, at what cost, and what cannot be undone."""
    waves, waiting = entries.plan(nodes), entries.waiting
    by_title: dict[str, list[WaitingNode]] = {}
    for entry in waiting.values():
        by_title.setdefault(entry.title, []).append(entry)
    took = _durations(entries)
    for title, those in by_title.items():
        yield f"{title}: on {_nodes(len(those))}; {_loss(those, took)}"
    policy = entries.policy()
    for number, wave in enumerate(waves, 1):
        yield f"wave {number}  {' '.join(wave.nodes)}{_watched(wave, policy.watch_s)}"
    yield _floor_line(waiting, waves, nodes)
    yield f"whole again after ~{span(_total(waves, took))}{_estimated(took)}"
    yield from _ways_back(waiting.values())


def _nodes(count: int) -> str:
    return f"{count} node{'s'[: count > 1]}"


def _loss(those: Sequence[WaitingNode], took: Mapping[str, tuple[float, bool]]) -> str:
    """What a node does not serve, and for how long."""
    longest = max(took[entry.node.name][0] for entry in those)
    each = "each is" if len(those) > 1 else "it is"
    if any(entry.in_place for entry in those):
        return f"nobody else takes their work, so replica by replica, for ~{span(longest)}"
    return f"{each} out of service for ~{span(longest)}"


def _watched(wave: Wave, seconds: int) -> str:
    return f"  (canary, watched {duration(seconds)})" if wave.canary else ""


def _floor_line(
    waiting: Mapping[str, WaitingNode], waves: Sequence[Wave], nodes: Mapping[str, Node]
) -> str:
    """Where the fleet stands at the worst moment, and whether the floor allows it.

    Nodes that serve nobody yet go before the first wave.
    """
    name, entry = next(iter(waiting.items()))
    coming = {n for n, node in nodes.items() if n not in waiting and node.record.outcome is None}
    fleet = SAFETY.fleet(entry.node)
    fleet = replace(fleet, out={*fleet.out} - coming)
    largest = max(len(wave.nodes) for wave in waves)
    least = fleet.nodes - len({*fleet.out}) - largest
    refused = circuit_breaker.floor_reason(fleet, name, serves=True)
    state = f"NOT ALLOWED: {refused}" if refused else f"at least {least} serve"
    return f"floor is {fleet.least} of {fleet.nodes}: {state}"


def _total(waves: Sequence[Wave], took: Mapping[str, tuple[float, bool]]) -> float:
    """Waves follow each other; the nodes of one go side by side."""
    return sum(max((took[n][0] for n in wave.nodes if n in took), default=0.0) for wave in waves)


def _durations(entries: Entries) -> dict[str, tuple[float, bool]]:
    """How long each node is out, and whether that was measured, on this node or on another."""
    changed = [name for name, change in entries.history().changes.items() if change]
    known = {name: took for name in changed if (took := _last_time(name)) is not None}
    other = next(iter(known.values()), None)
    found = {}
    for name, entry in entries.waiting.items():
        measured = known.get(name, other)
        found[name] = (measured, True) if measured is not None else (_estimate(entry), False)
    return found


def _estimate(entry: WaitingNode) -> float:
    spec, state = entry.node.spec, entry.node.state or {}
    boot = reboot_policy.took_s(state) or 0.0
    return boot + spec.rollout.watch_s + _PIPELINE_S


def _last_time(name: str) -> float | None:
    try:
        return last_time_s(SAFETY.transactions.read(name))
    except StoreError:
        return None


def last_time_s(tx: Transaction) -> float | None:
    """How long the node was out for its last change that was felt, to a second; None: never."""
    spans = transaction.durations(tx)
    return sum(spans[step] for step in _STEPS if step in spans) if "change" in spans else None


def _estimated(took: Mapping[str, tuple[float, bool]]) -> str:
    if all(measured for _, measured in took.values()):
        return " (as long as the last change took)"
    return " (an estimate: no node has been changed so before; draining comes on top)"


def _ways_back(waiting: Iterable[WaitingNode]) -> Iterator[str]:
    """Whether each node can go back to what it serves, and what stays whatever happens."""
    none: dict[str, list[str]] = {}
    final: dict[str, list[str]] = {}
    for entry in waiting:
        for what in entry.final:
            final.setdefault(what, []).append(entry.node.name)
        if reason := _no_way_back(entry):
            none.setdefault(reason, []).append(entry.node.name)
    if not none:
        yield "rollback: each node can go back to what it serves now"
    for reason, names in none.items():
        yield f"rollback: NOT POSSIBLE on {circuit_breaker.some(names)}: {reason}"
    for what, names in final.items():
        yield f"cannot be undone: {what} ({circuit_breaker.some(names)})"


def _no_way_back(entry: WaitingNode) -> str:
    if entry.continues or entry.measures:
        return ""
    try:
        former = served.restored(entry.node.spec, entry.before)
    except NoWayBack as error:
        return str(error)
    same = former == entry.node.spec
    return "the inventory asks for what it serves already" if same else ""
