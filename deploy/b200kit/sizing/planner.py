"""The shape of a deployment: how many replicas, over how many GPUs each, how large their batches.

Pure and without a node's state: model, hardware and goal decide, so an inventory is checked before
any connection; where each replica then lies is layout's business. The rules, from recipes for eight
B200s (vllm-project/recipes Llama3.3-70B.md; InferenceX sweeps), as data in `GOALS`:

    dense    one instance a replica; tensor parallelism only as far as memory or latency requires
    experts  few requests: TP; more: TP with experts spread (EP); many: attention by DP, experts EP

An explicit key of the inventory always wins; what cannot work raises `Impossible`, naming the key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from b200kit.node.placement.layout import Shape
from b200kit.sizing import explain, fit
from b200kit.sizing.fit import WIDTHS, GpuPool, Headroom, Impossible, Requested, Subject
from b200kit.sizing.goals import GOALS


@dataclass(frozen=True)
class Plan:
    """Replicas of one shape, with a line of reason a choice and a line for each way not taken."""

    replicas: int
    shape: Shape
    why: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()


def decide(
    subject: Subject, pool: GpuPool, requested: Requested, others: Sequence[Subject] = ()
) -> Plan:
    """The plan for a model on a machine; raises Impossible, which names of *others* what fits."""
    limits = _limits(requested)
    fit.check_dense(subject, requested)
    if requested.tp is not None:
        fit.check_width(subject, pool, limits.spread(Shape(tp=requested.tp)).tp)
    headrooms = fit.headrooms(subject, pool, limits)
    headroom, reason = _choose(subject, pool, limits, headrooms)
    replicas = requested.replicas or max(pool.gpus // headroom.shape.gpus, 1)
    fit.check_fits(subject, pool, limits, headroom, others)
    why = [reason, *explain.why(subject, pool, limits, headroom, replicas)]
    rejected = explain.rejected(subject, pool, limits, headrooms, headroom)
    return Plan(replicas, headroom.shape, tuple(why), tuple(rejected))


def _limits(requested: Requested) -> Requested:
    """The same with the goal's batch limits where none are given; without a goal 8 and 2048."""
    goal = GOALS[requested.goal or "latency"]
    return replace(
        requested,
        max_num_seqs=requested.max_num_seqs or goal.max_num_seqs,
        max_num_batched_tokens=requested.max_num_batched_tokens or goal.max_num_batched_tokens,
    )


def _choose(
    subject: Subject, pool: GpuPool, requested: Requested, headrooms: Mapping[int, Headroom]
) -> tuple[Headroom, str]:
    if requested.tp is not None:
        return headrooms[requested.tp], f"TP{requested.tp}: asked for by the inventory"
    enough = [tp for tp, one in headrooms.items() if fit.enough(one, requested)]
    if subject.dimensions.moe and requested.goal == "throughput" and 1 not in enough:
        spread = _spread(subject, pool, requested)
        if spread is not None:
            return spread
    if enough:
        return _grown(subject, pool, requested, headrooms, min(enough))
    # The widest is the last chance; whether it fits at all is checked afterwards.
    widest = max(headrooms)
    return headrooms[widest], f"TP{widest}: the model needs every GPU it can be split over"


def _grown(
    subject: Subject,
    pool: GpuPool,
    requested: Requested,
    headrooms: Mapping[int, Headroom],
    least: int,
) -> tuple[Headroom, str]:
    """TP from what memory requires up to what the goal finds worth its cost."""
    goal = GOALS[requested.goal or "throughput"]
    fits = min(tp for tp, one in headrooms.items() if one.left > 0)
    far = pool.gpus if requested.nodes > 1 else min(fits << goal.doublings, pool.socket)
    most = max(least, far)
    tp = least
    for wider in sorted(headrooms):
        worth = requested.nodes > 1 or subject.weights.total / wider >= goal.floor_gb * 1e9
        if tp < wider <= most and worth and pool.gpus % wider <= 1:
            tp = wider
    reason = f"fits at TP{fits} ({explain.tokens_text(headrooms[fits].tokens)} KV tokens)"
    if tp == least == fits:
        reason += "; more would add two all-reduces a layer" if tp == 1 else "; no less does"
    elif tp == least:
        reason += f"; TP{least} is the least with room for {requested.max_num_seqs} sequences"
    else:
        reason += f"; TP{tp} reads {fit.gb(subject.weights.total / tp)} a GPU and token step, not "
        reason += fit.gb(subject.weights.total / least)
    return headrooms[tp], f"TP{tp}: {reason}"


def _spread(subject: Subject, pool: GpuPool, requested: Requested) -> tuple[Headroom, str] | None:
    """Attention by DP and experts by EP over all GPUs; None where excluded or too large."""
    experts, most = subject.dimensions.experts, pool.gpus // (requested.replicas or 1)
    ranks = [n for n in WIDTHS if n <= most and experts and experts.count % n == 0]
    if requested.dp is not None or requested.ep is False:
        return None
    shape = replace(fit.base(requested, moe=True), tp=1, dp=max(ranks, default=1), ep=True)
    one = fit.headroom(subject, pool, requested, shape)
    if not fit.enough(replace(one, tokens=one.tokens // shape.dp), requested):
        return None
    return one, (
        f"DP{shape.dp} with EP{shape.dp}: many requests; each GPU keeps the cache of its own "
        f"requests and {shape.dp} share the experts"
    )


__all__ = ["GOALS", "GpuPool", "Impossible", "Plan", "Requested", "Subject", "decide"]
