"""SGLang behind the engine contract: `sglang serve --config FILE`.

Read from the 0.5.23 wheel on 2026-11-21: flags and variables were read from its own argument parser
(b200kit/catalog/engines/sglang-0.5.23.yaml), metrics stand in
srt/observability/metrics_collector.py. It takes its API key only by `--api-key`, which every
process could read; so replicas stay without one on loopback and the gateway checks it. On SIGTERM
its health is 503 and waits, without a limit, until no request is left
(srt/managers/tokenizer_manager.py, sigterm_watchdog).

`tp-size` counts all GPUs of a replica; `attn-dp-size` divides attention within it, `ep-size` the
experts (srt/arg_groups/parallel_hook.py), while `dp-size` makes whole copies of the model. Limits
of sequences and of tokens a step are those of all ranks together: SGLang divides them by
`attn-dp-size` (handle_data_parallelism; resolve_max_num_reqs in
srt/mem_cache/kv_cache_configurator.py). Until 2026-12-31 it also takes the older spelling,
`dp-size` with `enable-dp-attention`.
"""

from __future__ import annotations

from collections.abc import Mapping

from b200kit.engines.contract import (
    IDLE_CONNECTION_S,
    EngineGroup,
    EngineKind,
    Settings,
    Value,
    any_shape,
    offline,
    prefixes_kept,
    whole,
    wires,
)

_METRICS = {
    "running": "sglang:num_running_reqs",
    "waiting": "sglang:num_queue_reqs",
    "kv_usage": "sglang:token_usage",
    "generation_tokens": "sglang:generation_tokens_total",
    "prompt_tokens": "sglang:prompt_tokens_total",
    "ttft": "sglang:time_to_first_token_seconds",
    "inter_token_latency": "sglang:inter_token_latency_seconds",
    "e2e_latency": "sglang:e2e_request_latency_seconds",
    "queue_time": "sglang:queue_time_seconds",
    "preemptions": "sglang:num_retracted_requests_total",
}
_GROUP = "`group`"
_OWNED = {
    "model-path": "`model`",
    "served-model-name": "`model`",
    "config": "`engine.flags`",
    "host": "nothing: replicas listen on loopback, behind the gateway",
    "port": "`replica_ports`",
    "api-key": "`api_key`: the gateway checks it",
    "admin-api-key": "nothing: the gateway lets no path through that needs it",
    "ssl-keyfile": "nothing: TLS is the gateway's",
    "ssl-certfile": "nothing: TLS is the gateway's",
    "tp-size": "`tensor_parallel`",
    "context-length": "`max_model_len`",
    "max-running-requests": "`max_num_seqs`",
    "chunked-prefill-size": "`max_num_batched_tokens`",
    "enable-metrics": "nothing: it is always on",
    "numa-node": "`numa_policy`",
    "pp-size": _GROUP,
    "dp-size": "`replicas`: it makes whole copies of the model",
    "attn-dp-size": "`data_parallel`",
    "enable-dp-attention": "`data_parallel`",
    "ep-size": "`expert_parallel`",
    "nnodes": _GROUP,
    "node-rank": _GROUP,
    "dist-init-addr": _GROUP,
}
_REFUSED = {
    "enable-custom-logit-processor": "clients could send code (CVE-2026-7304)",
    "SGL_FORCE_SHUTDOWN": "a stop would cut open streams",
    "SGLANG_WARMUP_TIMEOUT": "the kit sets it from `warm_deadline_s`",
}


def config(settings: Settings) -> dict[str, Value]:
    """What `sglang serve --config` reads; its keys are the long names of flags."""
    return {
        "model-path": settings.model_dir,
        "served-model-name": settings.served_name,
        "host": settings.host,
        "port": settings.port,
        **_parallel(settings, settings.group),
        "context-length": settings.max_model_len,
        "max-running-requests": settings.max_num_seqs * settings.replica.dp,
        "chunked-prefill-size": settings.max_num_batched_tokens * settings.replica.dp,
        "enable-metrics": True,
        **({"numa-node": list(settings.numa_bind)} if settings.numa_bind else {}),
        **dict(sorted(settings.flags.items())),
    }


def _parallel(settings: Settings, group: EngineGroup | None) -> dict[str, Value]:
    """SGLang counts its sizes over all nodes; there is no headless flag, the rank says it."""
    replica = settings.replica
    width = replica.tp * replica.dp
    values: dict[str, Value] = {"tp-size": width}
    if group is None:
        values |= {"pp-size": replica.pp} if replica.pp > 1 else {}
        values |= {"attn-dp-size": replica.dp} if replica.dp > 1 else {}
        return values | ({"ep-size": width} if replica.ep else {})
    if group.join == "tensor":
        values["tp-size"] = replica.tp * group.nnodes
    else:
        values["pp-size"] = group.nnodes
    return values | {
        "nnodes": group.nnodes,
        "node-rank": group.node_rank,
        "dist-init-addr": f"{group.master_addr}:{group.master_port}",
    }


def argv(settings: Settings) -> tuple[str, ...]:
    """`sglang serve`, which since 0.5 stands for `python -m sglang.launch_server`."""
    return ("sglang", "serve", "--config", settings.config_path)


def drafted(flags: Mapping[str, object]) -> int:
    """Steps of EAGLE (alias NEXTN) without a draft model: by the checkpoint's own MTP layers."""
    named = str(flags.get("speculative-algorithm", "")).upper()
    own = named in ("EAGLE", "NEXTN") and "speculative-draft-model-path" not in flags
    return whole(flags.get("speculative-num-steps")) if own else 0


def environment(settings: Settings) -> dict[str, str]:
    """Offline, with caches of its own; its processes meet on a named interface."""
    values = offline(settings) | {
        "SGLANG_TIMEOUT_KEEP_ALIVE": str(IDLE_CONNECTION_S),
        # Its first request to itself, which compiles: 600 s by default (entrypoints/http_server.py)
        "SGLANG_WARMUP_TIMEOUT": str(settings.ready_s),
    }
    if settings.group:
        values["SGLANG_HOST_IP"] = settings.group.address
    return values | wires(settings.group)


KIND = EngineKind(
    name="sglang",
    distributions=("sglang",),
    health="/health",
    key_variable=None,
    metrics=_METRICS,
    variables=("SGLANG_", "SGL_"),
    owned=_OWNED,
    refused=_REFUSED,
    groups=("pipeline", "tensor"),
    binds_numa=True,
    kv_flag="kv-cache-dtype",
    kv_words={
        "auto": "auto",
        "bfloat16": "bfloat16",
        "fp8": "fp8_e4m3",
        "fp8_e5m2": "fp8_e5m2",
        "nvfp4": "nvfp4",
    },
    drafted=drafted,
    prefix_caching=prefixes_kept,
    refuses=any_shape,
    config=config,
    argv=argv,
    environment=environment,
)
