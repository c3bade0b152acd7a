"""TensorRT-LLM behind the engine contract: `trtllm-serve MODEL ... --config FILE`.

Read on 2026-11-21 from tensorrt_llm/commands/serve.py of the 1.2 line (commit 00209af149) and
tensorrt_llm/metrics/collector.py (commit 050f80def8). What is missing, and how that is handled:

- no API key of its own: replicas stay on loopback and the gateway checks it;
- no documented drain: a stop may cut open streams, so a replica must be taken out of the gateway
  first, as the rolling restart does;
- its counters are at /prometheus/metrics, and the kit reads /metrics of every engine: none is read;
- no count of preemptions, and time per output token instead of inter-token latency;
- several nodes need MPI (mpirun, srun): the kit joins none.
"""

from __future__ import annotations

from b200kit.engines.contract import EngineKind, Settings, Value, offline, wires

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
}
_REFUSED = {
    "custom_module_dirs": "it runs Python that nothing pins",
    "backend=tensorrt": "it needs an engine built beforehand, which the kit does not fetch",
}


def config(settings: Settings) -> dict[str, Value]:
    """Options of the LLM API that have no flag: without them nothing is counted."""
    del settings
    return {"return_perf_metrics": True, "enable_iter_perf_stats": True}


def argv(settings: Settings) -> tuple[str, ...]:
    """`trtllm-serve`: address and sizes are flags, and `--config` would win over them."""
    replica = settings.replica
    values: dict[str, Value] = {
        "host": settings.host,
        "port": settings.port,
        "tensor_parallel_size": replica.tp,
        "pipeline_parallel_size": replica.pp,
        **({"moe_expert_parallel_size": replica.tp} if replica.ep else {}),
        "max_seq_len": settings.max_model_len,
        "max_batch_size": settings.max_num_seqs,
        "max_num_tokens": settings.max_num_batched_tokens,
        "config": settings.config_path,
        **dict(sorted(settings.flags.items())),
    }
    words = [word for name, value in values.items() for word in _words(name, value)]
    return ("trtllm-serve", settings.model_dir, *words)


def _words(name: str, value: Value) -> tuple[str, ...]:
    if isinstance(value, bool):
        return (f"--{name}",) if value else ()
    return (f"--{name}", str(value))


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
    config=config,
    argv=argv,
    environment=environment,
)
