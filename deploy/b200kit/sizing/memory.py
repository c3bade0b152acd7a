"""Bytes of a model: weights and KV cache, for one GPU of a replica. Arithmetic, no table of models.

Everything is bytes unless a name says tokens. Formulas after vLLM 0.33 (v1/kv_cache_interface.py):
attention keeps 2 x layers x kv_heads x head_dim a token, beyond the KV heads one head on each rank;
MLA (kv_lora_rank + qk_rope_head_dim) a token and layer on every rank; windowed layers no more than
their window; recurrent layers a constant state a sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from b200kit.sizing.model_config import Dimensions, ModelError

GIB = 1 << 30

# Bytes of one weight with its scales: NVFP4 has an FP8 scale for 16 weights, MXFP4 one byte for 32,
# FP8 by blocks a 4-byte scale for 128 x 128, INT4 two bytes for 32 (Kimi's group size).
WEIGHT_BYTES: Mapping[str, float] = {
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "fp8-block": 1.0 + 4 / (128 * 128),
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
# One token and layer of `fp8_ds_mla`: 512 FP8, 4 scales of 4 bytes, 64 BF16 of the rotary part.
_DS_MLA = 656


@dataclass(frozen=True)
class Parameters:
    """Number of weights by part; what a quantised checkpoint treats differently is apart."""

    embedding: int
    head: int
    attention: int
    dense: int
    shared: int
    routed: int
    router: int
    draft: int

    @property
    def total(self) -> int:
        """All of the model itself, as its name counts them; the draft layers are extra."""
        ends = self.embedding + self.head + self.router
        return ends + self.attention + self.dense + self.shared + self.routed


@dataclass(frozen=True)
class Weights:
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


def parameters(shape: Dimensions) -> Parameters:
    """Counted from the dimensions; norms and biases, far below a thousandth, are left out."""
    experts = shape.experts
    plain = shape.layers - experts.layers if experts else shape.layers
    width = experts.width if experts else 0
    routed = experts.layers * _experts(shape) if experts else 0
    shared = experts.layers * _mlp(shape, experts.shared_width) if experts else 0
    return Parameters(
        embedding=shape.vocabulary * shape.hidden,
        head=0 if shape.tied else shape.vocabulary * shape.hidden,
        attention=_attention(shape) * shape.attention_layers + _recurrent(shape),
        dense=plain * _mlp(shape, shape.dense_width or width),
        shared=shared,
        routed=routed,
        router=experts.layers * experts.count * shape.hidden if experts else 0,
        draft=shape.draft_layers * _draft(shape),
    )


def _mlp(shape: Dimensions, width: int) -> int:
    return shape.mlp_matrices * shape.hidden * width


def _experts(shape: Dimensions) -> int:
    return shape.experts.count * _mlp(shape, shape.experts.width) if shape.experts else 0


def _attention(shape: Dimensions) -> int:
    """Weights of one attention layer."""
    mla = shape.mla
    if mla is None:
        queries = shape.heads * shape.head_dim
        read = queries * (2 if shape.gated_attention else 1) + 2 * shape.kv_heads * shape.head_dim
        return shape.hidden * (read + queries)
    per_head = mla.nope_dim + mla.rope_dim
    rank = mla.query_rank
    queries = (
        rank * (shape.hidden + shape.heads * per_head)
        if rank
        else shape.hidden * shape.heads * per_head
    )
    keys = shape.hidden * (mla.kv_rank + mla.rope_dim)
    up = mla.kv_rank * shape.heads * (mla.nope_dim + mla.value_dim)
    return queries + keys + up + shape.heads * mla.value_dim * shape.hidden


def _recurrent(shape: Dimensions) -> int:
    recurrent = shape.recurrent
    return recurrent.layers * (recurrent.inputs + recurrent.outputs) if recurrent else 0


def _draft(shape: Dimensions) -> int:
    """One layer that predicts further tokens: a layer of the model, a projection of two inputs."""
    experts = shape.experts
    inner = (
        _experts(shape) + _mlp(shape, experts.shared_width)
        if experts
        else _mlp(shape, shape.dense_width)
    )
    return _attention(shape) + inner + 2 * shape.hidden * shape.hidden


def weights(shape: Dimensions, stated: float | None = None) -> Weights:
    """Bytes of the checkpoint, *stated* (its safetensors) or counted.

    Embedding, head and router stay BF16, and so do the parts in `shape.unquantised`. Draft
    layers count: they are in the checkpoint, and loaded where speculative decoding is on.
    """
    have, small = parameters(shape), _weight_bytes(shape.weights)
    wide = 2.0
    rest = (have.embedding + have.head + have.router) * wide
    for part in ("attention", "dense", "shared", "draft"):
        rest += getattr(have, part) * (wide if part in shape.unquantised else small)
    routed = have.routed * small
    return Weights(routed, max(stated - routed, 0.0) if stated else rest)


def _weight_bytes(name: str) -> float:
    if name not in WEIGHT_BYTES:
        raise ModelError(f"weights in {name!r}: known are {', '.join(WEIGHT_BYTES)}")
    return WEIGHT_BYTES[name]


def kv_bytes(dtype: str, shape: Dimensions) -> float:
    """Bytes of one number of the cache; "auto" is what the checkpoint states, else BF16."""
    name = shape.kv_dtype if dtype == "auto" else dtype
    if name not in KV_BYTES:
        raise ModelError(f"kv-cache-dtype {name!r} is not known here: {', '.join(KV_BYTES)}")
    return KV_BYTES[name]


def layer_bytes(shape: Dimensions, tp: int = 1, dtype: str = "auto") -> float:
    """Cache of one token in one attention layer, on one GPU of a group of *tp*."""
    if dtype == "fp8_ds_mla" and shape.mla:
        return _DS_MLA
    width = kv_bytes(dtype, shape)
    if shape.mla:
        return (shape.mla.kv_rank + shape.mla.rope_dim) * width
    # Beyond the KV heads each head is stored by several ranks: a rank never holds less than one.
    return 2 * max(shape.kv_heads / tp, 1) * shape.head_dim * width


def sequence_bytes(
    shape: Dimensions,
    tokens: int,
    *,
    tp: int = 1,
    dtype: str = "auto",
    chunk: int = 0,
    draft: bool = False,
) -> float:
    """Cache of one sequence of *tokens* on one GPU, windows and recurrent states as they are.

    *chunk* is the prefill in flight (max-num-batched-tokens); a window must hold it besides itself.
    """
    full = shape.attention_layers - shape.windowed_layers + (shape.draft_layers if draft else 0)
    inside = min(shape.window + chunk, tokens)
    a_layer = layer_bytes(shape, tp, dtype)
    return a_layer * (full * tokens + shape.windowed_layers * inside) + state_bytes(shape, tp)


def state_bytes(shape: Dimensions, tp: int = 1) -> float:
    """Recurrent state of one sequence on one GPU: convolution BF16, the rest as the model says."""
    recurrent = shape.recurrent
    if recurrent is None:
        return 0.0
    return recurrent.layers * (recurrent.conv * 2 + recurrent.ssm * recurrent.ssm_bytes) / tp
