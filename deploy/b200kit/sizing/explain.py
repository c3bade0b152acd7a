"""A plan explained: a line of reason a choice, and why other ways were not taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from b200kit.node.placement.layout import Shape
from b200kit.sizing.fit import GpuPool, Headroom, Requested, Subject, enough, gb
from b200kit.sizing.goals import GOALS


def why(
    subject: Subject, pool: GpuPool, requested: Requested, headroom: Headroom, replicas: int
) -> list[str]:
    """Reasons of everything but the width, which its choice explains itself."""
    shape, goal = headroom.shape, GOALS.get(requested.goal or "")
    lines = [_instances(replicas, shape)]
    if subject.dimensions.moe and shape.gpus > 1:
        lines.append(f"EP {'on' if shape.ep else 'off'}: {_expert_reason(shape)}")
        if goal and goal.width_source and any("B200" in gpu.title for gpu in pool.models):
            lines.append(f"TP{shape.tp}: {goal.width_source}")
    batch = f"max-num-seqs {shape.max_num_seqs}, batched tokens {shape.max_num_batched_tokens}"
    lines.append(f"{batch}: {goal.batch_source}" if goal else batch)
    share = f"{headroom.left / headroom.usable:.0%}"
    lines.append(
        f"KV cache: {gb(headroom.left)} a GPU ({share} of what the engine may use) beside "
        f"{gb(headroom.weights)} of weights; computed, not measured"
    )
    if headroom.tight:
        lines.append(f"tight: {share} for the KV cache; if the estimate errs, it does not start")
    idle = pool.gpus - replicas * shape.gpus
    if idle > 0 and requested.replicas is None:
        count = f"{idle} of {pool.gpus} GPUs {'stays' if idle == 1 else 'stay'} idle"
        lines.append(f"{count}: no whole replica of {shape.gpus} GPUs fits on {_them(idle)}")
    return lines


def _them(number: int) -> str:
    return "it" if number == 1 else "them"


def _instances(replicas: int, shape: Shape) -> str:
    if replicas == 1:
        return f"1 replica: it takes {shape.gpus} GPU{'' if shape.gpus == 1 else 's'}"
    return f"{replicas} replicas: one instance each, with its own restart, log and failure domain"


def _expert_reason(shape: Shape) -> str:
    if shape.ep:
        return "each GPU holds whole experts: fewer, larger products at medium and high load"
    return "with few requests most experts idle, and TP uses every GPU for each of them"


def rejected(
    subject: Subject,
    pool: GpuPool,
    requested: Requested,
    headrooms: Mapping[int, Headroom],
    chosen: Headroom,
) -> Iterator[str]:
    """One line for each way that was not taken."""
    for tp, headroom in sorted(headrooms.items()):
        if tp != chosen.shape.tp or chosen.shape.dp > 1:
            yield f"TP{tp}: {_against(subject, headroom, chosen, requested, pool)}"
    if not subject.dimensions.moe:
        yield "DP in one instance: one port and one failure domain; vLLM balances dense DP itself"
    elif chosen.shape.dp == 1 and chosen.shape.gpus > 1:
        yield "DP with EP: its ranks go in lock-step, which costs latency until all are busy"
    yield "PP: its stages wait for each other; only for models larger than a node"


def _against(
    subject: Subject, headroom: Headroom, chosen: Headroom, requested: Requested, pool: GpuPool
) -> str:
    """Why not this width."""
    tp = headroom.shape.tp
    if headroom.left <= 0:
        return f"does not fit: {gb(-headroom.left)} a GPU are missing"
    if tp < chosen.shape.gpus and not enough(headroom, requested):
        share = f"{headroom.left / headroom.usable:.0%} of the memory"
        return f"too little for the KV cache: {tokens_text(headroom.tokens)} tokens, {share}"
    if chosen.shape.dp > 1:
        return f"one queue for {tp} GPUs, and fewer requests in their caches"
    if tp < chosen.shape.tp:
        return f"each GPU reads {gb(subject.active / tp)} of weights for a token"
    across = ", in a group across both sockets" if tp > pool.socket else ""
    return (
        f"two all-reduces a layer over {tp} GPUs for {gb(headroom.weights)} of weights on each"
        f"{across}; fewer, longer queues"
    )


def tokens_text(tokens: int) -> str:
    """A number of tokens as a person says it: 0.59 M, 1.6 M, 12.4 k."""
    if tokens >= 1_000_000:
        return f"{tokens / 1e6:.1f} M"
    return f"{tokens / 1e6:.2f} M" if tokens >= 100_000 else f"{tokens / 1e3:.1f} k"
