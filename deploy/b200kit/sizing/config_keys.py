"""A config.json whose reader is remembered: a key that changes sizes and is not read is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from b200kit.node.lib.readings import short
from b200kit.sizing.dimensions import ModelError

# No dimension of a model is as large: the longest context known is 10,485,760.
MOST = 100_000_000
_MOST_LAYERS = 1000
# Words in names of keys that count or measure a part of a model.
_SIZES = re.compile(
    r"(?:^|_)(?:num|n|dims?|size|rank|lora|layers?|heads?|experts?|window|kernel|ratios?|groups?"
    r"|interval|freq|types|pattern|blocks?|latent|width|mult|expand|share|shared|sparse|linear"
    r"|compress|kv|vocab|conv|per|modules|dense|moe|mlp|attn|attention|configs|replace|ngram"
    r"|states?|gated?|gating|mla|mtp|dspark|engram)(?:_|$)"
)
# Keys of such names that change nothing: routing, scaling, biases, norms, other modalities,
# generation, training, and what is said twice. From the corpus of tests/data/model_configs.
_NEUTRAL = frozenset(
    re.findall(
        r"[A-Za-z0-9_]+",
        """
    _attn_implementation _attn_implementation_autoset activation_situ_linear_beta
    add_full_attention_sink_bias add_swa_attention_sink_bias attention_bias attention_dropout
    attention_multiplier attention_probs_dropout_prob attention_value_scale attn_bias
    attn_implementation attn_logit_softcapping attn_res_block_size attn_scale
    attn_temperature_tuning bos_token_id chunk_size chunk_size_feed_forward compress_rope_theta
    cross_attention_hidden_size encoder_no_repeat_ngram_size ep_size expand floor_scale
    for_llm_class hc_sinkhorn_iters hidden_dropout image_grid_pinpoints image_seq_length
    image_size index_share_for_mtp_iteration index_topk initializer_range latent_moe_use_norm
    layer_norm_eps layer_norm_epsilon layernorm_epsilon mamba_chunk_size mamba_conv_bias
    mamba_hidden_act mamba_proj_bias max_window_layers mla_use_nope mlp_bias mlp_hidden_act
    moe_layer_use_bias moe_renormalize moe_router_activation_func moe_router_dtype
    moe_router_scaling_factor moe_shared_expert_overlap mtp_use_dedicated_embeddings n_group
    no_repeat_ngram_size num_beam_groups num_beams num_expert_group num_hash_layers num_labels
    num_logits_to_keep num_return_sequences num_reward_heads output_gate_type pretraining_tp
    projector_hidden_size qk_head_dim qk_norm_type qkv_bias query_pre_attn_scalar
    rope_interleave rotary_dim router_num_group seq_aux sliding_window_size swa_rope_theta
    time_step_rank topk_group use_bidirectional_attention use_conv_bias use_grouped_topk
    use_mamba_kernels use_moe_router_bias use_qk_norm use_unified_vision_chunk
    vision_soft_tokens_per_image vocab_size_per_layer_input
    """,
    )
)


class Config:
    """Keys of a config.json; each way to read one raises ModelError for a value of another kind."""

    def __init__(self, values: Mapping[str, Any], own: Iterable[str] | None = None) -> None:
        """*own* are the keys that must be understood; all where none are given."""
        self._values = values
        self._own = set(values if own is None else own)
        self._read: set[str] = set()

    def whole(self, *names: str) -> int:
        """A number above zero by the first of *names* that is there."""
        found = self.maybe(*names)
        if found is None:
            raise ModelError(f"config.json has no {' or '.join(names)}")
        return found

    def maybe(self, *names: str) -> int | None:
        """The same; None where none is there, or it is zero."""
        self._read.update(names)
        for name in names:
            value = self._values.get(name)
            if value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < MOST:
                raise ModelError(f"config.json: {name} is {short(value)}, not a whole number")
            return value or None
        return None

    def count(self, *names: str) -> int:
        """The same; 0 where it is not there."""
        return self.maybe(*names) or 0

    def layers(self) -> int:
        """How many layers the model has."""
        found = self.whole("num_hidden_layers")
        if found > _MOST_LAYERS:
            raise ModelError(f"config.json: num_hidden_layers is {found}, more than any model has")
        return found

    def flag(self, name: str, default: bool = False) -> bool:
        """A true or false."""
        self._read.add(name)
        value = self._values.get(name)
        return default if value is None else bool(value)

    def word(self, name: str, default: str = "") -> str:
        """A text."""
        self._read.add(name)
        value = self._values.get(name)
        return value if isinstance(value, str) else default

    def listed(self, name: str) -> list[Any] | None:
        """A list; None where there is none."""
        self._read.add(name)
        value = self._values.get(name)
        return value if isinstance(value, list) else None

    def section(self, name: str) -> Config | None:
        """A mapping inside, whose keys count as read with it."""
        self._read.add(name)
        value = self._values.get(name)
        return Config(value) if isinstance(value, Mapping) else None

    def is_list(self, name: str) -> bool:
        """Whether it is written layer by layer."""
        return isinstance(self._values.get(name), list)

    def unknown(self) -> list[str]:
        """Keys that change sizes, by their names, and that nobody read; sorted."""
        return sorted(
            name
            for name in self._own - self._read - _NEUTRAL
            if _SIZES.search(name) and self._values[name] not in (None, False, 0, [], {}, "")
        )
