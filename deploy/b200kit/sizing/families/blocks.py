"""Parts of a layer that families share: weights and what is kept, after vLLM 0.33.0.

Each gives a `Layer` with one part filled. Norms and biases are left out. Where the cache's figures
are from: `AttentionSpec` and `MLAAttentionSpec` of vllm/v1/kv_cache_interface.py, the states from
`MambaStateShapeCalculator` of vllm/model_executor/layers/mamba/mamba_utils.py (quoted).
"""

from __future__ import annotations

from b200kit.sizing.config_keys import Config
from b200kit.sizing.dimensions import Cache, Layer, LayerState

# One token of an indexer's cache: 128 FP8 and a scale of 4 bytes (DeepseekV32IndexerCache of
# vllm/models/deepseek_v32/attention.py).
_SCALE_EACH = 128
# One token in `fp8_ds_mla`: 512 FP8, 4 scales of 4 bytes, 64 BF16 of the rotary part.
_DS_MLA = 656


def attention(
    hidden: int,
    heads: int,
    kv_heads: int,
    key: int,
    value: int | None = None,
    *,
    window: int = 0,
    gated: bool = False,
    keys_are_values: bool = False,
) -> Layer:
    """Grouped queries (vllm/model_executor/layers/attention/attention.py, get_kv_cache_spec)."""
    value = key if value is None else value
    read = heads * key * (2 if gated else 1) + kv_heads * key
    read += 0 if keys_are_values else kv_heads * value
    cache = Cache(heads=kv_heads, numbers=key + value, window=window)
    cut = ("attention", heads * value)
    return Layer(attention=hidden * (read + heads * value), keeps=(cache,), cuts=(cut,))


def latent(config: Config, hidden: int, heads: int, gated: bool = False) -> Layer:
    """Multi-head latent attention (MLAAttention.get_kv_cache_spec of mla_attention.py)."""
    rank, rope = config.whole("kv_lora_rank"), config.count("qk_rope_head_dim")
    nope, value = config.whole("qk_nope_head_dim"), config.whole("v_head_dim")
    q_rank = config.maybe("q_lora_rank")
    per_head = nope + rope
    queries = q_rank * (hidden + heads * per_head) if q_rank else hidden * heads * per_head
    up = rank * heads * (nope + value)
    out = heads * value * hidden * (2 if gated else 1)
    cache = Cache(numbers=rank + rope, packed=_DS_MLA if rank + rope == 576 else 0)
    weights, cut = queries + hidden * (rank + rope) + up + out, ("attention", heads * value)
    return Layer(attention=weights, keeps=(cache,), cuts=(cut,))


def indexer(config: Config, hidden: int, q_rank: int) -> Layer:
    """What picks tokens for sparse attention, and its cache: 132 bytes a token of 128 numbers."""
    heads, width = config.whole("index_n_heads"), config.whole("index_head_dim")
    weights = q_rank * heads * width + hidden * (width + heads)
    cache = Cache(fixed=width + 4 * (width // _SCALE_EACH))
    return Layer(attention=weights, keeps=(cache,))


def feed_forward(hidden: int, width: int, matrices: int = 3) -> int:
    """Weights of a feed-forward block: gate, up and down, or only the latter two."""
    return matrices * hidden * width


def dense(hidden: int, width: int, matrices: int = 3) -> Layer:
    """A feed-forward block of a layer of its own."""
    return Layer(dense=feed_forward(hidden, width, matrices), cuts=(("dense", width),))


def mixture(
    hidden: int,
    count: int,
    width: int,
    shared_width: int = 0,
    *,
    matrices: int = 3,
    narrow: int | None = None,
) -> Layer:
    """Routed experts, shared ones and the router; *narrow* is the width experts work in, if less.

    Latent experts (FusedMoE with routed_input_transform) have a projection in and out besides.
    """
    routed = count * feed_forward(narrow or hidden, width, matrices)
    shared = feed_forward(hidden, shared_width, matrices) + (2 * hidden * narrow if narrow else 0)
    cuts = (("routed", width), *([("shared", shared_width)] if shared_width else []))
    return Layer(routed=routed, shared=shared, router=count * hidden, cuts=cuts)


def delta_net(config: Config, hidden: int) -> Layer:
    """Gated delta net of Qwen (gated_delta_net_state_shape)."""
    wide = config.whole("linear_key_head_dim")
    key, value_heads = config.whole("linear_num_key_heads") * wide, _value_heads(config)
    value = value_heads * config.whole("linear_value_head_dim")
    kernel, channels = config.whole("linear_conv_kernel_dim"), 2 * key + value
    inputs = hidden * (channels + value + 2 * value_heads) + channels * kernel
    ssm_bytes = state_bytes(config.word("mamba_ssm_dtype", "float32"))
    state = LayerState(channels=channels, kernel=kernel, ssm=value * wide, ssm_bytes=ssm_bytes)
    cut = ("attention", value)
    return Layer(attention=inputs + value * hidden, keeps=(state,), cuts=(cut,))


def _value_heads(config: Config) -> int:
    return config.whole("linear_num_value_heads")


def mamba2(config: Config, hidden: int) -> Layer:
    """Mamba 2 (mamba2_state_shape)."""
    heads, groups = config.whole("mamba_num_heads"), config.whole("n_groups")
    inner, size = heads * config.whole("mamba_head_dim"), config.whole("ssm_state_size")
    kernel, channels = config.whole("conv_kernel"), inner + 2 * groups * size
    inputs = hidden * (channels + inner + heads) + channels * kernel
    name = config.word("mamba_ssm_cache_dtype") or config.word("mamba_ssm_dtype", "float32")
    state = LayerState(
        channels=channels, kernel=kernel, ssm=inner * size, ssm_bytes=state_bytes(name)
    )
    cut = ("attention", inner)
    return Layer(attention=inputs + inner * hidden, keeps=(state,), cuts=(cut,))


def state_bytes(dtype: str) -> int:
    """Bytes of a number of the state: the model says which; float32 where it does not."""
    return 4 if dtype == "float32" else 2
