"""Which nodes are changed in which wave. Pure.

Nodes that serve as one are changed together. The canaries come first, one after another; then at
most `max_out` nodes a wave, of one rack where the inventory says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from b200kit.inventory.keys.rollout import Rollout
from b200kit.inventory.spec import NodeSpec


@dataclass(frozen=True)
class WaveUnit:
    """Nodes that are out together: one, or those of a serving group."""

    nodes: tuple[str, ...]
    rack: str | None = None


@dataclass(frozen=True)
class Wave:
    """The nodes of one wave; a *canary* shows that the change is good."""

    nodes: tuple[str, ...]
    canary: bool = False


def units(specs: Mapping[str, NodeSpec], going: Iterable[str]) -> list[WaveUnit]:
    """The units of nodes that are *going* to be changed, in the order of the inventory.

    All of a group is out while one of it is changed.
    """
    wanted = set(going)
    found: dict[str, WaveUnit] = {}
    for name, spec in specs.items():
        group = spec.group
        together = tuple(dict(group.members)) if group else (name,)
        members = tuple(member for member in together if member in specs)
        if wanted & set(members):
            found.setdefault(group.name if group else f"node {name}", WaveUnit(members, spec.rack))
    return list(found.values())


def strictest(policies: Iterable[Rollout]) -> Rollout:
    """What satisfies the rollout keys of all nodes of a run."""
    given = list(policies)
    return Rollout(
        canary=max(policy.canary for policy in given),
        max_out=min(policy.max_out for policy in given),
        stop_after=min(policy.stop_after for policy in given),
        watch_s=max(policy.watch_s for policy in given),
        by="rack" if any(policy.by for policy in given) else None,
    )


def waves(found: Sequence[WaveUnit], policy: Rollout, canaries_left: int) -> list[Wave]:
    """The waves of these units; *canaries_left* are still to be shown good."""
    first = [Wave(unit.nodes, canary=True) for unit in found[:canaries_left]]
    rest: list[Wave] = []
    last = None
    for unit in _by_rack(found[canaries_left:], policy):
        fits = rest and len(rest[-1].nodes) + len(unit.nodes) <= policy.max_out
        if fits and (not policy.by or unit.rack == last):
            rest[-1] = replace(rest[-1], nodes=rest[-1].nodes + unit.nodes)
        else:
            rest.append(Wave(unit.nodes))
        last = unit.rack
    return first + rest


def _by_rack(found: Sequence[WaveUnit], policy: Rollout) -> list[WaveUnit]:
    racks = list(dict.fromkeys(unit.rack for unit in found))
    return sorted(found, key=lambda unit: racks.index(unit.rack)) if policy.by else list(found)
