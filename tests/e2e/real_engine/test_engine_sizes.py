"""Bytes of weights and of the KV cache against what vLLM itself computes, a model of each family.

vLLM builds each on the meta device, in BF16 on one rank: its CPU build has no kernels for quantised
layers, and takes no model with them. A family that it cannot build is here with the reason, and
fails the test when it can be built.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from b200kit.sizing import memory, model_config
from b200kit.sizing.families import FAMILIES
from tests.e2e.driving import Outcome, on
from tests.e2e.tools import engine_sizes
from tests.unit.sizing.test_model_corpus import CORPUS, MEASURED

pytestmark = pytest.mark.real_engine

NODE, FOLDER = "b200-1", "/run/by-engine"
MOST_OFF = 0.05
Config = dict[str, Any]

# What the engine wants besides what decides a size; and the class, where the config names none.
_ROUTED: Config = {"scoring_func": "sigmoid"}
BESIDE: dict[str, Config] = {
    "deepseek_v4": {
        "hc_eps": 1e-6, "hc_sinkhorn_iters": 20, "topk_method": "noaux_tc", "index_topk": 512,
        "routed_scaling_factor": 1.5, "swiglu_limit": 10.0, "rms_norm_eps": 1e-6, "n_group": 1,
        "topk_group": 1, "norm_topk_prob": True, "rope_theta": 10000,
        "scoring_func": "sqrtsoftplus",
    },
    "glm4_moe_lite": {
        "first_k_dense_replace": 1, "architectures": ["Glm4MoeLiteForCausalLM"],
    },
    "mimo_v2_flash": {
        "layernorm_epsilon": 1e-6, "rope_theta": 1e6, "swa_rope_theta": 1e4, "n_group": 1,
        "topk_group": 1, "norm_topk_prob": True, "partial_rotary_factor": 0.5, **_ROUTED,
    },
    "minimax_m2": {"use_routing_bias": True, **_ROUTED},
    "ministral3": {"architectures": ["Ministral3ForCausalLM"]},
    "qwen3_vl_moe_text": {"norm_topk_prob": True},
    "qwen2_moe": {"architectures": ["Qwen2MoeForCausalLM"]},
}  # fmt: skip

# What it builds without the part that reads pictures, as the class of the language model alone.
TEXT_ALONE = {
    "gemma4_text": "Gemma4ForCausalLM",
    "qwen3_5_moe_text": "Qwen3_5MoeForCausalLM",
    "qwen3_5_text": "Qwen3_5ForCausalLM",
    "qwen3_vl_moe_text": "Qwen3MoeForCausalLM",
    "qwen3_vl_text": "Qwen3ForCausalLM",
}
# Families that vLLM 0.32.0's CPU build does not compute: what it says, and what that means.
_UNKNOWN = ("does not recognize this architecture", "not in the lock's version of transformers")
_SPARSE = ("Sparse Attention is not supported on CPU|Assertion failed", "attention only for GPUs")
NOT_COMPUTED: dict[str, tuple[str, str]] = {
    "deepseek_v32": _SPARSE,
    "deepseek_v4": ("dummy base class Event", "it makes CUDA events where it is built"),
    "glm_moe_dsa": _SPARSE,
    "kimi_linear": ("mamba-block-size|kda_layers", "its states' block is set for GPUs only"),
    "llama4_text": ("Invalid repository ID", "it asks for the files that read pictures"),
    "mimo": _UNKNOWN,
    "minimax_m3": _UNKNOWN,
    "minimax_m3_vl": ("must be a mapping", "it asks for a part that describes pictures"),
    "nemotron_h": ("supported only for CUDA", "experts without a gate are only for GPUs"),
}


def text(name: str) -> Config:
    """A config.json with what describes its language model."""
    config: Config = CORPUS[name]["config"]
    inner: Config = config.get("text_config", {})
    return config | inner


def plain(name: str) -> Config:
    """A config.json without its quantisation."""
    config: Config = json.loads(json.dumps(CORPUS[name]["config"]))
    for part in (config, config.get("text_config", {})):
        part.pop("quantization_config", None)
    return config


def chosen() -> dict[str, str]:
    """A model of each family, by the family: one whose checkpoint is not quantised, if any."""
    found: dict[str, str] = {}
    for name in sorted(MEASURED, key=lambda name: (plain(name) != CORPUS[name]["config"], name)):
        found.setdefault(text(name)["model_type"], name)
    return found


MODELS = chosen()


def engines(kind: str) -> Config:
    """A config.json that the engine takes."""
    config = plain(MODELS[kind])
    if kind in TEXT_ALONE:
        config = config["text_config"] | {"architectures": [TEXT_ALONE[kind]]}
    return config | BESIDE.get(kind, {})


def put(path: str, content: str) -> None:
    """Write a file on the node, in pieces that a command line takes."""
    coded = base64.b64encode(content.encode()).decode()
    for at in range(0, len(coded), 60_000):
        on(NODE, f"printf %s {coded[at : at + 60_000]} >> {path}.coded")
    on(NODE, f"base64 -d {path}.coded > {path}; rm {path}.coded")


def by_engine(program: ModuleType, document: Config) -> dict[str, Config]:
    """What a program says in the engine's own Python, a line with a name each, by the name."""
    on(NODE, f"rm -rf {FOLDER}; mkdir {FOLDER}")
    put(f"{FOLDER}/program.py", Path(str(program.__file__)).read_text(encoding="utf-8"))
    put(f"{FOLDER}/document.json", json.dumps(document))
    engine = on(NODE, "ls -d /opt/vllm/*/bin/python")
    said = on(NODE, f"cd {FOLDER}; {engine} -I program.py document.json 2>log; rm -r {FOLDER}")
    lines = [json.loads(line) for line in said.splitlines() if line.startswith('{"name"')]
    return {line["name"]: line for line in lines}


@pytest.fixture(scope="module")
def computed(real: Outcome) -> dict[str, Config]:
    """What the engine says of each, by the family."""
    return by_engine(engine_sizes, {kind: engines(kind) for kind in MODELS})


def apart(kind: str, found: Config) -> tuple[str, bool]:
    """A line with bytes of weights and of the same sequence, ours and theirs; whether too far."""
    shape = model_config.parse(plain(MODELS[kind]), None)
    weights = shape.parameters.total * memory.WEIGHT_BYTES["bf16"]
    cache = memory.sequence_bytes(shape, found["tokens"], chunk=found["in_flight"])
    pairs = ((weights, found["weights"]), (cache, found["cache"]))
    cells = (f"{a / 1e9:11.3f}{b / 1e9:11.3f}{100 * (a / b - 1):+7.2f}" for a, b in pairs)
    return f"{MODELS[kind]:42}{''.join(cells)}", any(abs(a / b - 1) > MOST_OFF for a, b in pairs)


def test_bytes_are_within_five_percent_of_the_engines(computed: dict[str, Config]) -> None:
    print(f"\n{'ours, theirs, %':42}{'weights, GB':>22}{'a sequence, GB':>29}")
    off = []
    for kind in sorted(FAMILIES.keys() - NOT_COMPUTED.keys()):
        assert "error" not in computed[kind], computed[kind]
        line, is_off = apart(kind, computed[kind])
        print(line)
        off += [kind] * is_off
    assert off == []


def test_bytes_that_are_a_tenth_off_are_too_far(computed: dict[str, Config]) -> None:
    for part in ("weights", "cache"):
        wrong = computed["llama"] | {part: computed["llama"][part] * 1.1}
        assert apart("llama", wrong)[1], part


def test_what_the_engine_cannot_compute_is_named_with_the_reason(
    computed: dict[str, Config],
) -> None:
    for kind, (words, why) in NOT_COMPUTED.items():
        print(f"{kind:20}{MODELS[kind]:50}not computed: {why}")
        assert re.search(words, computed[kind].get("error", "")), (kind, computed[kind])


def test_every_family_is_compared_or_named() -> None:
    assert MODELS.keys() == FAMILIES.keys()
    assert NOT_COMPUTED.keys() <= FAMILIES.keys()
