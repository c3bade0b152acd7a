"""A tiny Llama made on the spot, published in the model store as a real one would be.

2 layers of width 128 with random weights: the engine's real loader, tokenizer and chat template
run, at 2 MB. What it says means nothing; counts and times do.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

from b200kit.supply.models import directory, manifest
from tests.lab.mounts import remove_tree
from tests.lab.paths import MODEL_NAME, LabPaths
from tests.lab.shell import Progress, run, timed
from tests.lab.supply.safetensors import constant, normal, write_safetensors
from tests.lab.supply.wheels import LOCK, ensure_tools, parse_lock

HIDDEN, LAYERS, HEADS, KV_HEADS, VOCABULARY, MAX_LENGTH = 128, 2, 4, 2, 2048, 8192
FEED_FORWARD = 4 * HIDDEN
SPECIAL = ("<|begin_of_text|>", "<|end_of_text|>", "<|start|>", "<|end|>", "<|pad|>")
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|start|>{{ m['role'] }}\n{{ m['content'] }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
# Special tokens and single bytes, which come first in the vocabulary. An answer of nothing else has
# no text, and the greedy answers of random weights go round in circles: some stayed among these for
# 9 tokens of 16 (1 in 2,500), and an answer without text is refused, as it should be.
WITHOUT_TEXT = len(SPECIAL) + 256
# Raise when the files change in a way the stamp does not see.
_RECIPE = 5
_TRAINER = Path(__file__).with_name("train_tokenizer.py")


def config() -> dict[str, Any]:
    """Return ``config.json`` of the model."""
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": HIDDEN, "intermediate_size": FEED_FORWARD, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
        "head_dim": HIDDEN // HEADS, "vocab_size": VOCABULARY,
        "max_position_embeddings": MAX_LENGTH, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "attention_bias": False,
        "mlp_bias": False, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 4,
    }  # fmt: skip


def tokenizer_config() -> dict[str, Any]:
    """Return ``tokenizer_config.json`` with the chat template."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": SPECIAL[0],
        "eos_token": SPECIAL[1], "pad_token": SPECIAL[4],
        "additional_special_tokens": list(SPECIAL[2:4]), "model_max_length": MAX_LENGTH,
        "clean_up_tokenization_spaces": False, "chat_template": CHAT_TEMPLATE,
    }  # fmt: skip


def shapes() -> dict[str, tuple[int, ...]]:
    """Return every tensor's shape by its name in a Llama checkpoint."""
    head = HIDDEN // HEADS
    layer: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj": (HEADS * head, HIDDEN), "self_attn.k_proj": (KV_HEADS * head, HIDDEN),
        "self_attn.v_proj": (KV_HEADS * head, HIDDEN), "self_attn.o_proj": (HIDDEN, HEADS * head),
        "mlp.gate_proj": (FEED_FORWARD, HIDDEN), "mlp.up_proj": (FEED_FORWARD, HIDDEN),
        "mlp.down_proj": (HIDDEN, FEED_FORWARD), "input_layernorm": (HIDDEN,),
        "post_attention_layernorm": (HIDDEN,),
    }  # fmt: skip
    ends = {"model.embed_tokens": (VOCABULARY, HIDDEN), "lm_head": (VOCABULARY, HIDDEN)}
    layers = {
        f"model.layers.{index}.{name}": shape
        for index in range(LAYERS)
        for name, shape in layer.items()
    }
    return {f"{name}.weight": s for name, s in {**ends, "model.norm": (HIDDEN,), **layers}.items()}


def weights() -> dict[str, tuple[tuple[int, ...], bytes]]:
    """Return every tensor's shape and bytes: norms are 1, the rest random, seeded by its name.

    The head's rows `WITHOUT_TEXT` are 0, so that greedy decoding never chooses such a token.
    """
    tensors = {}
    for name, shape in shapes().items():
        if len(shape) == 1:
            data = constant(shape[0], 1.0)
        else:
            data = normal(shape[0] * shape[1], 0.05, seed=zlib.crc32(name.encode()))
        tensors[name] = (shape, data)
    shape, data = tensors["lm_head.weight"]
    silent = constant(WITHOUT_TEXT * HIDDEN, 0.0)
    tensors["lm_head.weight"] = (shape, silent + data[len(silent) :])
    return tensors


def recipe_stamp(with_tokenizer: bool) -> str:
    """Return a hash of everything that decides what the model's files are."""
    recipe = [
        _RECIPE,
        config(),
        tokenizer_config(),
        _TRAINER.read_text(encoding="utf-8"),
        with_tokenizer,
    ]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]


def ensure_model(lab: LabPaths, with_tokenizer: bool, progress: Progress) -> str:
    """Publish the model unless it is there and return its revision.

    The tokenizer is trained with the wheelhouse's ``tokenizers``; a stand-in engine needs none.
    """
    record = lab.cache / f"model-{recipe_stamp(with_tokenizer)}"
    store = lab.mirror / "models" / MODEL_NAME
    if record.is_file() and (store / record.read_text() / "manifest.json").is_file():
        return record.read_text()
    building = store.with_name(f"{MODEL_NAME}.building")
    remove_tree(building)
    building.mkdir(parents=True)
    with timed(progress, f"model: making {MODEL_NAME}"):
        _write_files(lab, building, with_tokenizer)
    raw = manifest.written(directory.entry(path.name, path) for path in building.iterdir())
    (building / "manifest.json").write_bytes(raw)
    revision = manifest.revision(raw)
    for path in building.iterdir():
        path.chmod(0o644)
    store.mkdir(exist_ok=True)
    remove_tree(store / revision)
    building.rename(store / revision)
    record.write_text(revision)
    return revision


def _write_files(lab: LabPaths, directory: Path, with_tokenizer: bool) -> None:
    ids = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 4}
    _write_json(directory / "config.json", config())
    _write_json(directory / "tokenizer_config.json", tokenizer_config())
    sampling = {**ids, "do_sample": True, "temperature": 1.0}
    _write_json(directory / "generation_config.json", sampling)
    write_safetensors(directory / "model.safetensors", weights())
    if with_tokenizer:
        python = _tokenizers_python(lab)
        target = directory / "tokenizer.json"
        run([python, "-I", _TRAINER, target, str(VOCABULARY), *SPECIAL])


def _tokenizers_python(lab: LabPaths) -> Path:
    """Return the tools' Python with ``tokenizers`` from the wheelhouse."""
    python = ensure_tools(lab)
    pin = next(p for p in parse_lock(LOCK.read_text(encoding="utf-8")) if p.name == "tokenizers")
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    run([python, *install, "--find-links", lab.mirror / "wheels", f"{pin.name}=={pin.version}"])
    return python


def _write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
