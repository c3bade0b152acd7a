"""Which arithmetic a model_type has. Data: what is not here is not sized.

Each row is the module of vLLM 0.33.0 under vllm/ whose layers the arithmetic follows (read
2026-11-24), and each has a config.json in tests/data/model_configs whose weights are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from b200kit.sizing.config_keys import Config
from b200kit.sizing.dimensions import Stack
from b200kit.sizing.families import deepseek, deepseek_v4, hybrid, mixed_attention, transformer


@dataclass(frozen=True)
class Family:
    """How the layers of a model are counted, and after which module of vLLM."""

    build: Callable[[Config], Stack]
    source: str


_MODELS = "model_executor/models"
FAMILIES: Mapping[str, Family] = {
    "llama": Family(transformer.build, f"{_MODELS}/llama.py"),
    "mistral": Family(transformer.build, f"{_MODELS}/mistral.py"),
    "ministral3": Family(transformer.build, f"{_MODELS}/mistral.py"),
    "mixtral": Family(transformer.build, f"{_MODELS}/mixtral.py"),
    "qwen2": Family(transformer.build, f"{_MODELS}/qwen2.py"),
    "qwen2_moe": Family(transformer.build, f"{_MODELS}/qwen2_moe.py"),
    "qwen3": Family(transformer.build, f"{_MODELS}/qwen3.py"),
    "qwen3_moe": Family(transformer.build, f"{_MODELS}/qwen3_moe.py"),
    "qwen3_vl_text": Family(transformer.build, f"{_MODELS}/qwen3_vl.py"),
    "qwen3_vl_moe_text": Family(transformer.build, f"{_MODELS}/qwen3_vl_moe.py"),
    "qwen3_next": Family(transformer.build, f"{_MODELS}/qwen3_next.py"),
    "qwen3_5_text": Family(transformer.build, f"{_MODELS}/qwen3_5.py"),
    "qwen3_5_moe_text": Family(transformer.build, f"{_MODELS}/qwen3_5.py"),
    "gpt_oss": Family(transformer.build, f"{_MODELS}/gpt_oss.py"),
    "minimax_m2": Family(transformer.build, f"{_MODELS}/minimax_m2.py"),
    "mimo": Family(transformer.build, f"{_MODELS}/mimo.py"),
    "glm4_moe": Family(transformer.build, f"{_MODELS}/glm4_moe.py"),
    "deepseek_v3": Family(deepseek.build, f"{_MODELS}/deepseek_v2.py"),
    "kimi_k2": Family(deepseek.build, f"{_MODELS}/deepseek_v2.py"),
    "glm4_moe_lite": Family(deepseek.build, f"{_MODELS}/glm4_moe_lite.py"),
    "deepseek_v32": Family(deepseek.build, "models/deepseek_v32/attention.py"),
    "glm_moe_dsa": Family(deepseek.build, "models/deepseek_v32/attention.py"),
    "deepseek_v4": Family(deepseek_v4.build, "models/deepseek_v4/attention.py"),
    "nemotron_h": Family(hybrid.nemotron, f"{_MODELS}/nemotron_h.py"),
    "kimi_linear": Family(hybrid.kimi, "models/kimi_k3/nvidia/model.py"),
    "llama4_text": Family(mixed_attention.llama4, f"{_MODELS}/llama4.py"),
    "gemma4_text": Family(mixed_attention.gemma4, f"{_MODELS}/gemma4.py"),
    "mimo_v2_flash": Family(mixed_attention.mimo_v2, f"{_MODELS}/mimo_v2.py"),
    "minimax_m3": Family(mixed_attention.minimax_m3, "models/minimax_m3/nvidia/model.py"),
    "minimax_m3_vl": Family(mixed_attention.minimax_m3, "models/minimax_m3/nvidia/model.py"),
}
