"""Bytes of a model: weights and KV cache, for one GPU of a replica. Arithmetic, no table of models.

Everything is bytes unless a name says tokens. After vllm/v1/kv_cache_interface.py of vLLM 0.33.0:
`AttentionSpec` keeps KV heads, beyond their number one head on each rank; `MLAAttentionSpec` one
entry on every rank; `SlidingWindowSpec` and `ChunkedLocalAttentionSpec` no more than window and
tokens in flight; `MambaSpec` a constant state a sequence. Where a model has such states, a block of
its attention is as large as one (vllm/platforms/interface.py); smaller blocks are not rounded up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

from b200kit.sizing.dimensions import Cache, Dimensions, LayerState, ModelError

GIB = 1 << 30

# Bytes of one weight with its scales: NVFP4 has an FP8 scale for 16 weights, MXFP4 and MXFP8 one
# byte for 32, FP8 by blocks a 4-byte scale for 128 x 128, INT4 two bytes for 32 (Kimi's groups).
WEIGHT_BYTES: Mapping[str, float] = {
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "fp8-block": 1.0 + 4 / (128 * 128),
    "mxfp8": 1.0 + 1 / 32,
    "nvfp4": 0.5 + 1 / 16,
    "mxfp4": 0.5 + 1 / 32,
    "int4": 0.5 + 2 / 32,
}

# Bytes of one number of the KV cache, by vLLM's --kv-cache-dtype (config/cache.py, 0.33.0). NVFP4
# with its FP8 scale for 16, "per token and head" with a 4-byte scale for 128. Experimental formats
# of fewer bits count as one byte, which is their upper bound.
KV_BYTES: Mapping[str, float] = {
    **dict.fromkeys(("auto", "bfloat16", "float16"), 2.0),
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla"), 1.0),
    **dict.fromkeys(("fp8_per_token_head", "int8_per_token_head"), 1.0 + 4 / 128),
    "int4_per_token_head": 0.5 + 4 / 128,
    **dict.fromkeys(("nvfp4", "nvfp4_4over6", "nvfp4_ds_mla"), 0.5 + 1 / 16),
    **dict.fromkeys(("turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc"), 1.0),
    **dict.fromkeys(("turboquant_3bit_nc", "ultraquant_4bit"), 1.0),
    **dict.fromkeys(("octave_k3v4", "octave_k3v3", "octave_k3v3_compact"), 1.0),
}
_PACKED = "fp8_ds_mla"
# A model that packs by default does so for each of these (_resolve_dsv4_kv_cache_dtype).
_NARROW = ("auto", "fp8", "fp8_e4m3", _PACKED)
# States of a sequence under prefix caching, besides one for each drafted token: MambaSpec in the
# cache mode "align", which MambaModelConfig of models/config.py takes with prefix caching.
_STATES = 2


@dataclass(frozen=True)
class WeightBytes:
    """Bytes of a checkpoint: the routed experts, which EP spreads, and everything else."""

    routed: float
    rest: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.routed + self.rest

    def a_gpu(self, tp: int, dp: int = 1, ep: bool = False, pp: int = 1) -> float:
        """What one GPU holds: TP splits all, DP copies, EP spreads the experts over both."""
        spread = tp * dp if ep else tp
        return (self.routed / spread + self.rest / tp) / pp


@dataclass(frozen=True)
class Memory:
    """One GPU's memory as an engine may use it.

    *reserve* is for CUDA graphs and activations: 6 GiB, inferred from 70B models on B200.
    """

    total: float
    utilisation: float = 0.92
    reserve: float = 6.0 * GIB

    @property
    def usable(self) -> float:
        """For weights and KV cache together."""
        return self.total * self.utilisation - self.reserve


def weights(shape: Dimensions, stated: float | None = None) -> WeightBytes:
    """Bytes of the checkpoint, *stated* (its safetensors) or counted.

    Embedding, head and router stay BF16; the other parts are as `shape.parts` says. Draft layers
    count: they are in the checkpoint, and loaded where speculative decoding is on.
    """
    have = shape.parameters
    rest = (have.embedding + have.head + have.router) * WEIGHT_BYTES["bf16"]
    for part in ("attention", "dense", "shared", "draft"):
        rest += getattr(have, part) * _part_bytes(shape, part)
    routed = have.routed * _part_bytes(shape, "routed")
    return WeightBytes(routed, max(stated - routed, 0.0) if stated else rest)


def _part_bytes(shape: Dimensions, part: str) -> float:
    """Bytes of a weight of a part, on average."""
    formats = shape.parts.get(part, {shape.weights: 1.0})
    return sum(_weight_bytes(name) * share for name, share in formats.items())


def _weight_bytes(name: str) -> float:
    if name not in WEIGHT_BYTES:
        raise ModelError(f"weights in {name!r}: known are {', '.join(WEIGHT_BYTES)}")
    return WEIGHT_BYTES[name]


def kv_format(dtype: str, shape: Dimensions) -> str:
    """The cache's number format; "auto" is what the checkpoint states, else BF16."""
    name = shape.kv_dtype if dtype == "auto" else dtype
    if name not in KV_BYTES:
        raise ModelError(f"kv-cache-dtype {name!r} is not known here: {', '.join(KV_BYTES)}")
    return name


def entry_bytes(cache: Cache, tp: int, dtype: str) -> float:
    """One entry of one layer on one GPU of a group of *tp*, *dtype* already resolved."""
    if cache.packed and (dtype == _PACKED or (cache.narrow and dtype in _NARROW)):
        return cache.packed + cache.fixed
    # Beyond the KV heads each head is stored by several ranks: a rank never holds less than one.
    heads = max(cache.heads / tp, 1)
    return heads * cache.numbers * KV_BYTES[dtype] + cache.fixed


def sequence_bytes(
    shape: Dimensions,
    tokens: int,
    *,
    tp: int = 1,
    dtype: str = "auto",
    chunk: int = 0,
    drafted: int = 0,
    prefix_caching: bool = True,
) -> float:
    """Cache of one sequence of *tokens* on one GPU, windows and recurrent states as they are.

    *chunk* are the tokens in flight; a window must hold them besides itself.
    *drafted* tokens of the model's own draft layers add their caches.
    """
    name = kv_format(dtype, shape)
    kept = (*shape.keeps, *(shape.draft_keeps if drafted else ()))
    block = (
        max((_state(each, drafted) for each in kept if isinstance(each, LayerState)), default=0)
        / tp
    )
    caches = [each for each in kept if isinstance(each, Cache)]
    sizes = (entry_bytes(each, tp, name) * _entries(each, tokens, chunk) for each in caches)
    whole = (ceil(size / block) * block if block else size for size in sizes)
    total = sum(each.layers * size for each, size in zip(caches, whole, strict=True))
    return total + state_bytes(kept, tp, drafted, prefix_caching)


def _entries(cache: Cache, tokens: int, chunk: int) -> float:
    inside = min(cache.window + chunk, tokens) if cache.window else tokens
    return inside / cache.ratio


def state_bytes(
    kept: Iterable[Cache | LayerState], tp: int = 1, drafted: int = 0, prefix_caching: bool = True
) -> float:
    """Recurrent states of one sequence on one GPU: convolution BF16, the rest as the model says.

    `max_memory_usage_bytes` of MambaSpec: one state, with prefix caching two, and one more for
    each token that is drafted.
    """
    states = [each for each in kept if isinstance(each, LayerState)]
    number = (_STATES if prefix_caching else 1) + drafted
    return number * sum(each.layers * _state(each, drafted) for each in states) / tp


def _state(state: LayerState, drafted: int) -> int:
    """One state of one layer, of all ranks together."""
    convolution = state.channels * (state.kernel - 1 + drafted) * 2
    return convolution + state.ssm * state.ssm_bytes
