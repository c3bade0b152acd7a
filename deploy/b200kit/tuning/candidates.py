"""Which layouts a tuning tries: the configured one, the planner's, the matrix's. Pure.

Every candidate goes through the inventory's own checks, as it would if somebody wrote it there; one
that is refused is named with the reason and not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from b200kit.catalog.types import Catalogue
from b200kit.inventory import defaults
from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.spec import NodeSpec
from b200kit.records.tuning import KEYS, Layout, RefusedLayout, Workload
from b200kit.sizing import planner
from b200kit.sizing.dimensions import WIDTHS, ModelError
from b200kit.sizing.fit import Impossible
from b200kit.sizing.goals import GOALS

Parse = Callable[[Mapping[str, object]], "NodeSpec | list[Problem]"]
"""The node's inventory data with some keys on top, checked."""
CONFIGURED = "configured"


@dataclass(frozen=True)
class Candidate:
    """A layout that can be, with the node's spec for it."""

    layout: Layout
    spec: NodeSpec


def requested(spec: NodeSpec) -> Layout:
    """The layout that the inventory configures."""
    return Layout(**{key: getattr(spec, key) for key in KEYS}, names=(CONFIGURED,))


def candidates(
    spec: NodeSpec,
    catalogue: Catalogue,
    goal: str,
    matrix: Mapping[str, Mapping[str, Any]],
    parse: Parse,
    only: Sequence[str] = (),
) -> tuple[list[Candidate], list[RefusedLayout]]:
    """Layouts to try, the configured one first, each once; and those that cannot be."""
    found: dict[tuple[Any, ...], Candidate] = {}
    refused = []
    every = [requested(spec), *_planned(spec, catalogue, goal), *_of_matrix(spec, matrix)]
    known = {name for layout in every for name in layout.names}
    refused += [RefusedLayout(name, f"unknown; known: {', '.join(sorted(known))}") for name in only
                if name not in known]  # fmt: skip
    for layout in every:
        name, identity = layout.names[0], tuple(layout.values.values())
        if only and name not in only:
            continue
        if identity in found:
            before = found[identity]
            named = replace(before.layout, names=(*before.layout.names, name))
            found[identity] = replace(before, layout=named)
            continue
        parsed = parse(layout.values)
        if isinstance(parsed, list):
            refused.append(RefusedLayout(f"{layout}", f"{parsed[0].key}: {parsed[0].message}"))
        else:
            found[identity] = Candidate(layout, parsed)
    return list(found.values()), refused


def _planned(spec: NodeSpec, catalogue: Catalogue, goal: str) -> Iterator[Layout]:
    """The planner's own layout; the goal's limits at every width; other limits at its own."""
    best = _best(spec, catalogue, goal)
    if best:
        yield best
    yield from _widths(spec, catalogue, goal)
    if best:
        yield from _limits(best)


def _best(spec: NodeSpec, catalogue: Catalogue, goal: str) -> Layout | None:
    """What the planner decides for a goal alone; None where it knows too little or nothing fits."""
    hardware, model = catalogue.hardware.get(spec.hardware), catalogue.models.get(spec.model)
    if not (hardware and hardware.gpu_bytes and model and model.dimensions):
        return None
    requested = replace(
        defaults.requested(spec, model, catalogue),
        goal=goal,
        replicas=None,
        tp=None,
        dp=None,
        ep=None,
        max_num_seqs=None,
        max_num_batched_tokens=None,
    )
    try:
        plan = planner.decide(defaults.subject(model), defaults.pool(spec, hardware), requested)
    except (Impossible, ModelError):
        return None
    shape = plan.shape
    limits = shape.max_num_batched_tokens, shape.max_num_seqs
    return Layout(plan.replicas, shape.tp, shape.dp, shape.ep, *limits, names=("plan",))


def _widths(spec: NodeSpec, catalogue: Catalogue, goal: str) -> Iterator[Layout]:
    """The goal's batch limits at every width; for experts, spread over all GPUs as well."""
    hardware, model = catalogue.hardware.get(spec.hardware), catalogue.models.get(spec.model)
    if hardware is None:
        return
    gpus = defaults.pool(spec, hardware).gpus
    moe = bool(model and model.dimensions and model.dimensions.moe)
    limits = GOALS[goal]
    plain = Layout(1, 1, 1, False, limits.max_num_batched_tokens, limits.max_num_seqs)
    for width in (width for width in WIDTHS if width <= gpus):
        yield replace(
            plain,
            replicas=gpus // width,
            tensor_parallel=width,
            expert_parallel=moe and goal in ("balanced", "throughput") and width > 1,
            names=(f"plan-TP{width}",),
        )
    if moe and gpus > 1:
        yield replace(plain, data_parallel=gpus, expert_parallel=True, names=(f"plan-DP{gpus}",))


def _limits(best: Layout) -> Iterator[Layout]:
    """Half and twice each batch limit, one at a time."""
    for factor, named in ((0.5, "half"), (2, "twice")):
        tokens = max(1, int(best.max_num_batched_tokens * factor))
        yield replace(best, max_num_batched_tokens=tokens, names=(f"plan-{named}-tokens",))
        seqs = max(1, int(best.max_num_seqs * factor))
        yield replace(best, max_num_seqs=seqs, names=(f"plan-{named}-seqs",))


def _of_matrix(spec: NodeSpec, matrix: Mapping[str, Mapping[str, Any]]) -> Iterator[Layout]:
    """The benchmark matrix, with the inventory's values where it has none."""
    for name, row in matrix.items():
        values = {"data_parallel": 1, "expert_parallel": spec.expert_parallel} | {
            key: row[key] for key in KEYS if key in row
        }
        yield Layout(**values, names=(name,))


def workloads(
    spec: NodeSpec, known: Mapping[str, Mapping[str, Any]], names: Sequence[str]
) -> tuple[list[Workload], list[RefusedLayout]]:
    """The loads by their names, and those that cannot be."""
    own = {"input_tokens": spec.smoke.input_tokens, "output_tokens": spec.smoke.output_tokens}
    table = {**known, "smoke": own}
    found, refused = [], []
    for name in names:
        if name not in table:
            refused.append(RefusedLayout(name, f"unknown load; known: {', '.join(sorted(table))}"))
            continue
        row = table[name]
        load = Workload(name, row["input_tokens"], row["output_tokens"])
        total = load.input_tokens + load.output_tokens
        if total > spec.max_model_len:
            why = f"{total} tokens a request are over max_model_len={spec.max_model_len}"
            refused.append(RefusedLayout(name, why))
        else:
            found.append(load)
    return found, refused
