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
from b200kit.sizing import explain, fit, weight_blocks
from b200kit.sizing.dimensions import WIDTHS
from b200kit.sizing.fit import GpuPool, Headroom, Impossible, Requested, Subject
from b200kit.sizing.goals import GOALS

# Share of the GPUs that may stay idle for wider groups than memory requires. Inferred.
_IDLE = 0.2


@dataclass(frozen=True)
class SizingPlan:
    """Replicas of one shape, with a line of reason a choice and a line for each way not taken."""

    replicas: int
    shape: Shape
    why: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()


def decide(
    subject: Subject, pool: GpuPool, requested: Requested, others: Sequence[Subject] = ()
) -> SizingPlan:
    """The plan for a model on a machine; raises Impossible, which names of *others* what fits."""
    limits = _limits(requested)
    fit.check_dense(subject, requested)
    fit.check_formats(subject, pool, limits, others)
    if requested.tp is not None:
        fit.check_width(subject, pool, limits.spread(Shape(tp=requested.tp)).tp)
    headrooms = fit.headrooms(subject, pool, limits)
    headroom, reason = _choose(subject, pool, limits, headrooms)
    replicas = requested.replicas or max(pool.gpus // headroom.shape.gpus, 1)
    fit.check_fits(subject, pool, limits, headroom, others)
    key, cut = weight_blocks.refusal(subject.dimensions, limits.spread(headroom.shape))
    if cut:
        raise Impossible(key, f"{subject.name}: {cut}")
    why = [reason, *explain.why(subject, pool, limits, headroom, replicas)]
    rejected = explain.rejected(subject, pool, limits, headrooms, headroom)
    return SizingPlan(replicas, headroom.shape, tuple(why), tuple(rejected))


def _limits(requested: Requested) -> Requested:
    """The same with the goal's batch limits where none are given; without a goal 8 and 2048."""
    goal = GOALS[requested.goal or "latency"]
    return replace(
        requested,
        max_num_seqs=requested.max_num_seqs or goal.max_num_seqs,
        max_num_batched_tokens=requested.max_num_batched_tokens or goal.max_num_batched_tokens,
        batch=requested.max_num_seqs or requested.batch,
    )


def _choose(
    subject: Subject, pool: GpuPool, requested: Requested, headrooms: Mapping[int, Headroom]
) -> tuple[Headroom, str]:
    if requested.tp is not None:
        return headrooms[requested.tp], f"TP{requested.tp}: asked for by the inventory"
    enough = [tp for tp, one in headrooms.items() if fit.enough(one, requested)]
    if enough:
        alone = _grown(subject, pool, requested, headrooms, min(enough))
    else:
        # The widest is the last chance; whether it fits at all is checked afterwards.
        widest = max(headrooms)
        reason = f"TP{widest}: the model needs every GPU it can be split over"
        alone = headrooms[widest], reason
    spread = _spread(subject, pool, requested, headrooms)
    if spread is None:
        return alone
    bearable = not enough or _bearable(pool, spread[0].shape.gpus, alone[0].shape.gpus)
    return spread if bearable else alone


def _bearable(pool: GpuPool, size: int, instead: int) -> bool:
    """Whether replicas of *size* GPUs leave few idle, or no more than those *instead*."""
    return pool.gpus % size <= max(pool.gpus % instead, _IDLE * pool.gpus)


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
        worth = requested.nodes > 1 or subject.active / wider >= goal.floor_gb * 1e9
        if tp < wider <= most and worth and _bearable(pool, wider, 1):
            tp = wider
    reason = f"fits at TP{fits} ({explain.tokens_text(headrooms[fits].tokens)} KV tokens)"
    if tp == least == fits:
        reason += "; more would add two all-reduces a layer" if tp == 1 else "; no less does"
    elif tp == least:
        reason += f"; TP{least} is the least with room for {requested.batch} sequences"
    else:
        reason += f"; TP{tp} reads {fit.gb(subject.active / tp)} a GPU and token step, not "
        reason += fit.gb(subject.active / least)
    return headrooms[tp], f"TP{tp}: {reason}"


def _spread(
    subject: Subject, pool: GpuPool, requested: Requested, headrooms: Mapping[int, Headroom]
) -> tuple[Headroom, str] | None:
    """Attention by DP, experts by EP, over the most GPUs that leave the fewest idle.

    None where another goal is asked for, or one GPU holds a full batch, or no GPUs hold enough.
    """
    experts, most = subject.dimensions.experts, pool.gpus // (requested.replicas or 1)
    if experts is None or requested.goal != "throughput" or requested.dp or requested.ep is False:
        return None
    if 1 in headrooms and fit.enough(headrooms[1], requested, requested.max_num_seqs):
        return None
    plain = replace(fit.base(requested, moe=True), tp=1, ep=True)
    ranks = [n for n in WIDTHS if 1 < n <= most and experts.count % n == 0]
    ways = [fit.headroom(subject, pool, requested, replace(plain, dp=n)) for n in ranks]
    able = [one for one in ways if fit.enough(_a_rank(one), requested)]
    if not able:
        return None
    idle = {one.shape.dp: 0 if requested.replicas else pool.gpus % one.shape.dp for one in able}
    best = min(able, key=lambda one: (idle[one.shape.dp], -one.shape.dp))
    number = best.shape.dp
    return best, (
        f"DP{number} with EP{number}: many requests; each GPU keeps the cache of its own "
        f"requests and {number} share the experts"
    )


def _a_rank(one: Headroom) -> Headroom:
    """What one rank of it has for its own requests."""
    return replace(one, tokens=one.tokens // one.shape.dp)


__all__ = ["GOALS", "GpuPool", "Impossible", "Requested", "SizingPlan", "Subject", "decide"]
