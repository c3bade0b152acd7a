"""What vLLM itself computes of models: bytes of their weights, and of the cache of one sequence.

    PYTHON_OF_THE_ENGINE engine_sizes.py MODELS

MODELS is a JSON file {name: config.json}; a JSON line each is printed. Weights are those of the
engine's model class, built on the meta device: shapes and formats without a byte of memory. The
cache is `max_memory_usage_bytes` over what each layer says that it keeps, for a sequence of the
longest context with a batch in flight.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

IN_FLIGHT = 8192
ENVIRON = {
    "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
    "VLLM_LOGGING_LEVEL": "CRITICAL", "VLLM_NO_USAGE_STATS": "1", "TORCHDYNAMO_DISABLE": "1",
}  # fmt: skip


def module(name: str) -> Any:
    """One of the engine's: this repository has none of them."""
    return importlib.import_module(name)


def without_pictures() -> None:
    """Let modules be imported that read pictures, too: without torchvision, which no text needs."""
    if importlib.util.find_spec("torchvision"):
        return
    for part in ("", ".transforms", ".transforms.functional", ".transforms.v2", ".io", ".ops",
                 ".transforms.v2.functional"):  # fmt: skip
        name = "torchvision" + part
        spec = importlib.machinery.ModuleSpec(name, None)
        sys.modules[name] = MagicMock(__path__=[], __spec__=spec, __version__="0.24")


def settings(config: dict[str, Any]) -> Any:
    """The engine's configuration for a model."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(config), encoding="utf-8")
        arguments = module("vllm.engine.arg_utils").EngineArgs(
            model=folder, tokenizer=folder, skip_tokenizer_init=True, load_format="dummy",
            enforce_eager=True, max_num_batched_tokens=IN_FLIGHT, max_num_seqs=8,
            language_model_only=True, dtype="bfloat16",
        )  # fmt: skip
        return arguments.create_engine_config()


def one_rank() -> None:
    """What a model's layers need of the other ranks: that there are none."""
    parallel = module("vllm.distributed.parallel_state")
    if not parallel.model_parallel_is_initialized():
        with tempfile.NamedTemporaryFile(delete=False) as file:
            meeting = f"file://{file.name}"
        parallel.init_distributed_environment(1, 0, meeting, 0, "gloo")
        parallel.initialize_model_parallel(1, 1)


def sizes(config: dict[str, Any]) -> dict[str, object]:
    """Of one model."""
    torch, vllm_config = module("torch"), module("vllm.config")
    known = settings(config)
    with vllm_config.set_current_vllm_config(known):
        one_rank()
        torch.set_default_dtype(torch.bfloat16)
        with torch.device("meta"):
            model = module("vllm.model_executor.model_loader.utils").initialize_model(
                known, model_config=known.model_config
            )
        base = module("vllm.model_executor.layers.attention_layer_base").AttentionLayerBase
        layers = vllm_config.get_layers_from_vllm_config(known, base)
        kept = [spec for each in layers.values() if (spec := each.get_kv_cache_spec(known))]
    utils = module("vllm.v1.core.kv_cache_utils")
    return {
        "weights": sum(each.numel() * each.element_size() for each in model.parameters()),
        "cache": utils.max_memory_usage_bytes(known, kept),
        "tokens": known.model_config.max_model_len,
        "in_flight": known.max_in_flight_tokens,
        "kinds": sorted({type(spec).__name__ for spec in kept}),
    }


def main() -> None:
    """Print a line a model, with its error where there is one."""
    os.environ.update(ENVIRON)
    without_pictures()
    # Else each class is looked at by a process of its own, which imports the whole engine again.
    module("vllm.model_executor.models.registry")._run_in_subprocess = lambda look: look()
    for name, config in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")).items():
        try:
            found = sizes(config)
        except Exception as error:
            found = {"error": " ".join(f"{type(error).__name__}: {error}".split())[:600]}
        print(json.dumps({"name": name, **found}), flush=True)


if __name__ == "__main__":
    main()
