"""Whether a model fits: what each way to split it leaves of the GPUs' memory. Pure.

A split that leaves nothing is a `Headroom` below zero: its bytes are those that are missing.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from b200kit.node.placement.layout import Shape
from b200kit.sizing import memory, weight_blocks
from b200kit.sizing.dimensions import WIDTHS, Dimensions, ModelError
from b200kit.sizing.gpu_model import GpuModel
from b200kit.sizing.memory import Memory, WeightBytes

# Less than this share of the memory left for the KV cache is tight: CUDA graphs alone took a third
# of it for one model on B200 (InferenceX on Kimi), and then the engine does not start. Inferred.
_TIGHT = 0.15
# A request is taken to hold half of the longest context, but no more than 2048 tokens. Inferred.
_PLANNED_TOKENS = 2048
# Steps in flight: vLLM 0.33 schedules one while another computes, and a window holds the tokens of
# both (max_concurrent_batches and max_in_flight_tokens of vllm/config/vllm.py).
_BATCHES = 2
# Sequences of a step by which active weights are counted, as in a full batch of the goal latency;
# each token goes to experts of its own, by chance. Inferred.
_FEW = 8
# NVFP4 needs the FP4 units of Blackwell: NVIDIA's model cards of NVFP4 checkpoints name Blackwell
# as the only architecture (quoted). MXFP4 runs on Hopper as well (vLLM's recipe for gpt-oss,
# quoted).
_WITH_FP4 = ("Blackwell",)
_FP4 = "nvfp4"


class Impossible(ValueError):
    """The request cannot work; *key* is the inventory key to change, the text one line."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


@dataclass(frozen=True)
class GpuPool:
    """The hardware in two figures, and how many of its GPUs may be used."""

    name: str
    gpus: int
    gpu_bytes: float
    complete: int
    models: frozenset[GpuModel] = frozenset()
    """What the GPUs are, or could be; none where that is not known."""

    @property
    def socket(self) -> int:
        """GPUs of one socket: TP beyond it would cross, so it grows no further unless requested."""
        return max(self.complete // 2, 1)


@dataclass(frozen=True)
class Requested:
    """What the inventory says; None leaves it to the goal."""

    goal: str | None = None
    replicas: int | None = None
    tp: int | None = None
    dp: int | None = None
    ep: bool | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    # Sequences that the cache of a replica must hold; the same for all goals, so that a goal with
    # a larger batch never takes more GPUs a replica than one with a smaller.
    batch: int = 128
    max_model_len: int = 4096
    kv_dtype: str = "auto"
    utilisation: float = 0.92
    # Tokens that the model's own draft layers add to a step; 0 where they are not used.
    drafted: int = 0
    prefix_caching: bool = True
    # Nodes that share one engine (b200kit/inventory/group.py), and by what: pipeline, tensor or
    # data.
    nodes: int = 1
    join: str = ""

    def spread(self, shape: Shape) -> Shape:
        """A node's shape over all nodes of its group."""
        name = {"pipeline": "pp", "tensor": "tp", "data": "dp"}.get(self.join)
        return replace(shape, **{name: getattr(shape, name) * self.nodes}) if name else shape


@dataclass(frozen=True)
class Subject:
    """The model as the planner sees it: a name, its dimensions and its checkpoint's bytes."""

    name: str
    dimensions: Dimensions
    weights: WeightBytes

    @property
    def active(self) -> float:
        """Bytes of weights that a step of few sequences reads: of the experts those it uses."""
        experts = self.dimensions.experts
        if experts is None:
            return self.weights.total
        unused = (1 - experts.active / experts.count) ** _FEW
        return self.weights.rest + self.weights.routed * (1 - unused)


@dataclass(frozen=True)
class Headroom:
    """What one candidate shape leaves for the KV cache, a GPU and a replica."""

    shape: Shape
    weights: float
    left: float
    tokens: int
    usable: float

    @property
    def tight(self) -> bool:
        """Whether so little is left that an error of the estimate decides whether it starts."""
        return self.left < _TIGHT * self.usable


def divides(dimensions: Dimensions, tp: int) -> bool:
    """Whether the heads can be split so: KV heads are split evenly or copied evenly."""
    kv = dimensions.kv_heads
    return dimensions.heads % tp == 0 and (dimensions.latent or kv % tp == 0 or tp % kv == 0)


def headroom(subject: Subject, pool: GpuPool, requested: Requested, shape: Shape) -> Headroom:
    """What *shape* leaves; negative *left* says how many bytes are missing on a GPU."""
    usable = Memory(pool.gpu_bytes, requested.utilisation).usable
    whole = requested.spread(shape)
    weights = subject.weights.a_gpu(whole.tp, whole.dp, whole.ep, whole.pp)
    left = usable - weights
    sequence = memory.sequence_bytes(
        subject.dimensions,
        requested.max_model_len,
        tp=whole.tp,
        dtype=requested.kv_dtype,
        chunk=_BATCHES * shape.max_num_batched_tokens,
        drafted=requested.drafted,
        prefix_caching=requested.prefix_caching,
    )
    if sequence <= 0:
        raise ModelError(f"{subject.name}: no layer of it keeps anything of a sequence")
    # As vLLM counts them: sequences of the longest context that fit, times its tokens.
    tokens = int(max(left, 0) * requested.max_model_len / (sequence / whole.pp)) * shape.dp
    return Headroom(replace(shape, kv_tokens=tokens), weights, left, tokens, usable)


def headrooms(subject: Subject, pool: GpuPool, requested: Requested) -> dict[int, Headroom]:
    """Each possible width of tensor parallelism with what it leaves, by width.

    Those that would cut a block of weights are left out; where all would, they are there to be
    refused by name. Where no other holds the model, experts are spread, which leaves them whole.
    """
    most = max(pool.gpus // (requested.replicas or 1), 1)
    widths = [n for n in WIDTHS if n <= most and divides(subject.dimensions, n)]
    plain = base(requested, subject.dimensions.moe)
    shapes = [replace(plain, tp=tp) for tp in [*widths, *([requested.tp] if requested.tp else [])]]
    alone = [replace(shape, ep=shape.ep and shape.gpus > 1) for shape in shapes]
    whole = [
        shape for shape in alone
        if shape.tp == requested.tp
        or not any(weight_blocks.refusal(subject.dimensions, requested.spread(shape)))
    ]  # fmt: skip
    found = {shape.tp: headroom(subject, pool, requested, shape) for shape in whole or alone}
    free = subject.dimensions.moe and requested.ep is None and requested.tp is None
    if len(whole) < len(alone) and free and not any(one.left > 0 for one in found.values()):
        return headrooms(subject, pool, replace(requested, ep=True))
    return found


def base(requested: Requested, moe: bool) -> Shape:
    """The shape of one GPU: everything but the width is decided by the request and the goal."""
    ep = (
        requested.ep
        if requested.ep is not None
        else moe and requested.goal in ("balanced", "throughput")
    )
    return Shape(
        dp=requested.dp or 1,
        ep=ep,
        max_num_seqs=requested.max_num_seqs or 0,
        max_num_batched_tokens=requested.max_num_batched_tokens or 0,
    )


def enough(one: Headroom, requested: Requested, sequences: int | None = None) -> bool:
    """Whether the cache holds so many requests, as long as they are planned for."""
    planned = min(requested.max_model_len, 2 * _PLANNED_TOKENS) // 2
    needed = max((sequences or requested.batch) * planned, requested.max_model_len)
    return one.left > 0 and not one.tight and one.tokens >= needed


def check_dense(subject: Subject, requested: Requested) -> None:
    """Refuse what only a mixture of experts can do."""
    if subject.dimensions.moe:
        return
    if (requested.dp or 1) > 1:
        raise Impossible(
            "data_parallel", f"{subject.name} is dense: ask for more replicas, one instance each"
        )
    if requested.ep:
        raise Impossible("expert_parallel", f"{subject.name} has no experts to spread")


def check_formats(
    subject: Subject, pool: GpuPool, requested: Requested, others: Sequence[Subject]
) -> None:
    """Refuse numbers that these GPUs cannot compute with."""
    refused = _weights_refusal(subject, pool)
    if refused:
        ways = _would_fit(subject, pool, requested, others)
        raise Impossible("model", f"{subject.name} on {pool.name}: {refused}. {ways}")
    refused = _format_refusal(requested.kv_dtype, pool.models)
    if refused:
        raise Impossible("engine.flags", f"kv-cache-dtype on {pool.name}: {refused}")


def _weights_refusal(subject: Subject, pool: GpuPool) -> str | None:
    """Why these GPUs cannot compute with weights of some part."""
    found = (_format_refusal(name, pool.models) for name in sorted(subject.dimensions.formats))
    return next((reason for reason in found if reason), None)


def check_width(subject: Subject, pool: GpuPool, tp: int) -> None:
    """Refuse a width that the heads cannot be split over."""
    dimensions = subject.dimensions
    if divides(dimensions, tp):
        return
    known = [str(n) for n in range(1, pool.gpus + 1) if divides(dimensions, n)]
    raise Impossible(
        "tensor_parallel",
        f"tensor_parallel={tp} does not divide the heads of {subject.name}: {dimensions.heads} "
        f"and {dimensions.kv_heads} of keys and values; possible: {', '.join(known)}",
    )


def check_fits(
    subject: Subject, pool: GpuPool, requested: Requested, one: Headroom, others: Sequence[Subject]
) -> None:
    """Refuse a shape without room for the weights and one longest request a rank."""
    gpus, ranks = one.shape.gpus * requested.nodes, one.shape.dp
    span = f"{gpus} GPU{'s' if gpus > 1 else ''} of {pool.name}"
    if one.left <= 0:
        raise Impossible(
            "model",
            f"{subject.name} needs {gb(one.weights * gpus)} for weights alone; {span} "
            f"hold {gb(one.usable * gpus)}: {gb(-one.left * gpus)} are missing. "
            + _would_fit(subject, pool, requested, others),
        )
    if one.tokens // ranks < requested.max_model_len:
        raise Impossible(
            "max_model_len",
            f"max_model_len={requested.max_model_len}, but beside {subject.name} {span} "
            f"have room for {one.tokens // ranks} tokens. "
            + _would_fit(subject, pool, requested, others),
        )


def _would_fit(
    subject: Subject, pool: GpuPool, requested: Requested, others: Sequence[Subject]
) -> str:
    """What would do: the least width of this model and of its other checkpoints, if any does."""
    least = [(one.name, _min_width(one, pool, requested)) for one in (subject, *others)
             if not _weights_refusal(one, pool)]  # fmt: skip
    ways = [f"TP{tp}" if name == subject.name else f"{name} at TP{tp}" for name, tp in least if tp]
    if ways:
        return f"Try {', or '.join(ways)}"
    return f"No TP of {pool.gpus} GPUs does: it takes a smaller checkpoint or more nodes"


def _min_width(subject: Subject, pool: GpuPool, requested: Requested) -> int | None:
    """The fewest GPUs that hold a model and one longest request."""
    ways = headrooms(subject, pool, replace(requested, replicas=None, tp=None, dp=None, ep=None))
    doing = [tp for tp, r in ways.items() if r.left > 0 and r.tokens >= requested.max_model_len]
    return min(doing, default=None)


def gb(number: float) -> str:
    """Bytes as a person says them."""
    return f"{number / 1e9:.0f} GB" if number >= 10e9 else f"{number / 1e9:.1f} GB"


def _format_refusal(name: str, models: Set[GpuModel]) -> str | None:
    """Why these GPUs cannot use a format; None where they can, or are not known."""
    without = sorted(gpu.title for gpu in models if gpu.architecture not in _WITH_FP4)
    if not name.startswith(_FP4) or not without:
        return None
    return f"{name.upper()} needs a Blackwell GPU, which {' or '.join(without)} is not"
