"""TensorRT-LLM behind the engine contract: `trtllm-serve MODEL ... --config FILE`.

Read on 2026-11-21 from tensorrt_llm/commands/serve.py of the 1.2 line (commit 00209af149) and
tensorrt_llm/metrics/collector.py (commit 050f80def8). What is missing, and how that is handled:

- no API key of its own: replicas stay on loopback and the gateway checks it;
- no documented drain: a stop may cut open streams, so a replica must be taken out of the gateway
  first, as the rolling restart does;
- its counters are at /prometheus/metrics, and the kit reads /metrics of every engine: none is read;
- no count of preemptions, and time per output token instead of inter-token latency;
- several nodes need MPI (mpirun, srun): the kit joins none.

`tensor_parallel_size` counts all GPUs. `enable_attention_dp` then gives each of them requests of
its own, so attention is never split within a rank; limits of sequences and tokens are a rank's
(llmapi/llm_args.py, _ParallelConfig; examples/configs/curated). What has no option of the command
is a field of the file, its parts by dots: `kv_cache_config.dtype`.
"""

from __future__ import annotations

from collections.abc import Mapping

from b200kit.engines.contract import (
    EngineKind,
    Scalar,
    Settings,
    Value,
    offline,
    prefixes_kept,
    whole,
    wires,
)
from b200kit.node.lib.documents import parse
from b200kit.node.placement.layout import Shape

_METRICS = {
    "running": "trtllm_num_requests_running",
    "waiting": "trtllm_num_requests_waiting",
    "kv_usage": "trtllm_kv_cache_utilization",
    "generation_tokens": "trtllm_generation_tokens_total",
    "prompt_tokens": "trtllm_prompt_tokens_total",
    "ttft": "trtllm_time_to_first_token_seconds",
    "e2e_latency": "trtllm_e2e_request_latency_seconds",
    "queue_time": "trtllm_request_queue_time_seconds",
}
_OWNED = {
    "config": "`engine.flags`",
    "host": "nothing: replicas listen on loopback, behind the gateway",
    "port": "`replica_ports`",
    "tensor_parallel_size": "`tensor_parallel`",
    "pipeline_parallel_size": "`tensor_parallel`",
    "gpus_per_node": "`tensor_parallel`",
    "max_seq_len": "`max_model_len`",
    "max_batch_size": "`max_num_seqs`",
    "max_num_tokens": "`max_num_batched_tokens`",
    "moe_expert_parallel_size": "`expert_parallel`",
    "enable_attention_dp": "`data_parallel`",
    "return_perf_metrics": "nothing: it is always on",
    "enable_iter_perf_stats": "nothing: it is always on",
}
# Options that the command alone has, or checks by its own list.
_OF_COMMAND = frozenset(
    {
        "backend",
        "chat_template",
        "custom_module_dirs",
        "disagg_cluster_uri",
        "free_gpu_memory_fraction",
        "log_level",
        "media_io_kwargs",
        "metadata_server_config_file",
        "reasoning_parser",
        "server_role",
        "tool_parser",
    }
)
_REFUSED = {
    "custom_module_dirs": "it runs Python that nothing pins",
    "backend=tensorrt": "it needs an engine built beforehand, which the kit does not fetch",
}


def config(settings: Settings) -> dict[str, Value]:
    """Fields of the LLM API that have no option of the command, as the nested mapping it reads."""
    values: dict[str, Value] = {
        # Without them nothing is counted.
        "return_perf_metrics": True,
        "enable_iter_perf_stats": True,
        # Without it a prompt of more than max_num_tokens is refused.
        "enable_chunked_prefill": True,
        "cuda_graph_config.enable_padding": True,
        "cuda_graph_config.max_batch_size": settings.max_num_seqs,
        **({"enable_attention_dp": True} if settings.replica.dp > 1 else {}),
    }
    own = sorted(settings.flags.items())
    return _nested(values | {n: _parsed(v) for n, v in own if n not in _OF_COMMAND})


def _nested(values: dict[str, Value]) -> dict[str, Value]:
    """A mapping with `a.b` as b within a."""
    tree: dict[str, Value] = {}
    for name, value in values.items():
        whole, dot, part = name.partition(".")
        inner = tree.get(whole) if dot else value
        tree[whole] = {**(inner if isinstance(inner, dict) else {}), part: value} if dot else value
    return tree


def _parsed(value: Scalar) -> Value:
    """A list or a mapping, given as text in JSON."""
    loaded: Value = parse(value) if isinstance(value, str) and value[:1] in "[{" else value
    return loaded


def argv(settings: Settings) -> tuple[str, ...]:
    """`trtllm-serve`: address and sizes are options, and `--config` would win over them."""
    replica = settings.replica
    width = replica.tp * replica.dp
    values: dict[str, Value] = {
        "host": settings.host,
        "port": settings.port,
        "tensor_parallel_size": width,
        "pipeline_parallel_size": replica.pp,
        **({"moe_expert_parallel_size": width} if replica.ep else {}),
        "max_seq_len": settings.max_model_len,
        "max_batch_size": settings.max_num_seqs,
        "max_num_tokens": settings.max_num_batched_tokens,
        "config": settings.config_path,
        **{n: value for n, value in sorted(settings.flags.items()) if n in _OF_COMMAND},
    }
    words = [word for name, value in values.items() for word in _words(name, value)]
    return ("trtllm-serve", settings.model_dir, *words)


def refuses(shape: Shape) -> str:
    """Attention is either split over all GPUs of a replica or over none."""
    if shape.dp == 1 or shape.tp == 1:
        return ""
    return (
        f"trtllm gives each GPU requests of its own, or none: with data_parallel={shape.dp} it "
        f"takes tensor_parallel=1, not {shape.tp}"
    )


def _words(name: str, value: Value) -> tuple[str, ...]:
    if isinstance(value, bool):
        return (f"--{name}",) if value else ()
    return (f"--{name}", str(value))


def drafted(flags: Mapping[str, object]) -> int:
    """Tokens a step by MTP, whose layers are the checkpoint's own."""
    own = flags.get("speculative_config.decoding_type") == "MTP"
    return whole(flags.get("speculative_config.num_nextn_predict_layers")) if own else 0


def environment(settings: Settings) -> dict[str, str]:
    """Offline, with files of its own; its workers meet on loopback."""
    return offline(settings) | wires(None)


KIND = EngineKind(
    name="trtllm",
    distributions=("tensorrt-llm",),
    health="/health",
    key_variable=None,
    metrics=_METRICS,
    variables=(),
    owned=_OWNED,
    refused=_REFUSED,
    groups=(),
    binds_numa=False,
    kv_flag="kv_cache_config.dtype",
    kv_words={"auto": "auto", "fp8": "fp8"},
    drafted=drafted,
    prefix_caching=prefixes_kept,
    refuses=refuses,
    config=config,
    argv=argv,
    environment=environment,
)
