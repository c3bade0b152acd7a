"""SGLang behind the engine contract: `sglang serve --config FILE`.

Read from the 0.5.23 wheel on 2026-11-21: flags and variables were read from its own argument parser
(b200kit/catalog/engines/sglang-0.5.23.yaml), metrics stand in
srt/observability/metrics_collector.py. It takes its API key only by `--api-key`, which every
process could read; so replicas stay without one on loopback and the gateway checks it. On SIGTERM
its health is 503 and waits, without a limit, until no request is left
(srt/managers/tokenizer_manager.py, sigterm_watchdog).
"""

from __future__ import annotations

from b200kit.engines.contract import (
    IDLE_CONNECTION_S,
    EngineKind,
    Group,
    Settings,
    Value,
    offline,
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
    "dp-size": _GROUP,
    "nnodes": _GROUP,
    "node-rank": _GROUP,
    "dist-init-addr": _GROUP,
}
_REFUSED = {
    "enable-custom-logit-processor": "clients could send code (CVE-2026-7304)",
    "SGL_FORCE_SHUTDOWN": "a stop would cut open streams",
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
        "max-running-requests": settings.max_num_seqs,
        "chunked-prefill-size": settings.max_num_batched_tokens,
        "enable-metrics": True,
        **({"numa-node": list(settings.numa_bind)} if settings.numa_bind else {}),
        **dict(sorted(settings.flags.items())),
    }


def _parallel(settings: Settings, group: Group | None) -> dict[str, Value]:
    """SGLang counts its sizes over all nodes; there is no headless flag, the rank says it."""
    replica = settings.replica
    values: dict[str, Value] = {"tp-size": replica.tp}
    if group is None:
        values |= {"pp-size": replica.pp} if replica.pp > 1 else {}
        values |= {"dp-size": replica.dp} if replica.dp > 1 else {}
        return values | ({"ep-size": replica.tp} if replica.ep else {})
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


def environment(settings: Settings) -> dict[str, str]:
    """Offline, with caches of its own; its processes meet on a named interface."""
    values = offline(settings) | {"SGLANG_TIMEOUT_KEEP_ALIVE": str(IDLE_CONNECTION_S)}
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
    config=config,
    argv=argv,
    environment=environment,
)
