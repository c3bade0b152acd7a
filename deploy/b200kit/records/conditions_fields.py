"""The conditions that a run records, one row a field. Data.

The list is what a reader needs to repeat a latency figure or to doubt it: models, versions, flags,
load, client, server, hardware, place.

`source` is a path into what the controller has: `requested` (the inventory, resolved), `state` (the
NodeState), `smoke` (the result), `observed` (drawn from both,
b200kit/records/conditions_sources.py), `layout`, `node`. `*` stands for every entry of a list.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a difference in a field means for two runs."""

    IDENTITY = "identity"
    """Another run, nothing else: date, seed, counts. Never compared."""
    LOAD = "load"
    """What was requested of the server. Runs that differ here are not comparable."""
    SYSTEM = "system"
    """What a person changed or a machine is: the causes to name first."""
    CONDITION = "condition"
    """What was so at that hour: the causes to name after them."""


@dataclass(frozen=True)
class Field:
    """One field. *slack*: numbers that differ by no more are the same (in the field's unit).

    *needed*: a result without it is not stored. *uncollected*: why nobody collects it yet.
    """

    name: str
    words: str
    source: str
    role: Role
    needed: bool = False
    slack: float = 0.0
    uncollected: str = ""


_I, _L, _S, _C = Role.IDENTITY, Role.LOAD, Role.SYSTEM, Role.CONDITION
_NEITHER = "neither the running servers nor the engine's lock file name it"

FIELDS: tuple[Field, ...] = (
    Field("run.node", "node", "node", _I, needed=True),
    Field("run.taken_at", "date", "smoke.taken_at", _I, needed=True),
    Field("run.seed", "seed", "smoke.conditions.seed", _I, needed=True),
    Field("run.cache_salt", "cache salt", "smoke.conditions.cache_salt", _I),
    Field("run.observed_at", "node observed at", "state.taken_at", _I, needed=True),
    Field("run.boot_id", "boot", "state.host.boot_id", _I),
    Field("run.completed", "requests completed", "smoke.completed", _I, needed=True),
    Field("run.failed", "requests failed", "smoke.failed", _I, needed=True),
    Field("run.duration_s", "duration (s)", "smoke.duration", _I, needed=True),
    # Load: the same, or there is nothing to compare.
    Field("load.model", "model", "requested.model", _L, needed=True),
    Field("load.stand_in", "stand-in engine", "smoke.conditions.stand_in", _L, needed=True),
    Field("load.requests", "requests", "smoke.conditions.requests", _L, needed=True),
    Field("load.arrival", "arrival", "smoke.conditions.arrival", _L, needed=True),
    Field("load.rate", "request rate (/s)", "smoke.request_rate", _L, needed=True),
    Field("load.isl", "input tokens requested", "smoke.conditions.isl_requested", _L, needed=True),
    Field("load.osl", "output tokens requested", "smoke.conditions.osl_requested", _L, needed=True),
    Field("load.prompts", "dataset", "smoke.conditions.prompts", _L, needed=True),
    # What the dataset's name says, too; each for itself, so that a difference is named.
    Field("load.prefix_share", "shared prefix", "smoke.conditions.prefix_share", _L),
    Field("load.prefix_requests", "sharing a prefix", "smoke.conditions.prefix_requests", _L),
    Field("load.turns", "turns of a conversation", "smoke.conditions.turns", _L),
    Field("load.sampling", "sampling", "smoke.conditions.sampling", _L, needed=True),
    Field("load.connection", "connections", "smoke.conditions.connection", _L),
    Field("load.ttft", "formula of TTFT", "smoke.formulas.ttft", _L, needed=True),
    Field("load.itl", "formula of ITL", "smoke.formulas.itl", _L, needed=True),
    Field("load.tpot", "formula of TPOT", "smoke.formulas.tpot", _L, needed=True),
    Field("load.e2el", "formula of E2E", "smoke.formulas.e2el", _L, needed=True),
    # Model and versions.
    Field("model.revision", "weights", "requested.model_revision", _S, needed=True),
    Field("model.quantization", "quantization", "requested.quantization", _S),
    Field("model.kv_dtype", "KV cache type", "requested.kv_dtype", _S),
    Field("versions.engine", "engine", "smoke.conditions.engine", _S, needed=True),
    Field("versions.engine_says", "engine's own version", "smoke.conditions.engine_version", _S),
    Field("versions.engine_lock", "engine's lock file", "requested.engine_id", _S, needed=True),
    Field("versions.torch", "torch", "observed.libraries.torch", _S, uncollected=_NEITHER),
    Field("versions.nccl", "NCCL", "observed.libraries.nccl", _S, uncollected=_NEITHER),
    Field(
        "versions.flashinfer",
        "FlashInfer",
        "observed.libraries.flashinfer",
        _S,
        uncollected=_NEITHER,
    ),
    Field(
        "versions.cuda_runtime", "CUDA runtime", "observed.libraries.cuda", _S, uncollected=_NEITHER
    ),
    Field("versions.driver", "driver", "state.nvml.driver_version", _S, needed=True),
    Field("versions.cuda", "CUDA of the driver", "state.nvml.cuda_driver_version", _S),
    Field("versions.gsp", "GSP firmware", "state.gpus.*.gsp_firmware", _S),
    Field("versions.vbios", "VBIOS", "state.gpus.*.vbios", _S),
    Field("versions.kernel", "kernel", "state.host.kernel", _S, needed=True),
    Field("versions.os", "operating system", "state.host.os.pretty", _S),
    Field("versions.kit", "b200kit on the node", "state.tool.version", _C),
    Field("versions.kit_sha256", "node program", "state.tool.sha256", _C),
    # How it serves.
    Field("serving.replicas", "replicas", "smoke.conditions.replicas", _S, needed=True),
    Field("serving.tp", "TP", "layout.*.tp", _S, needed=True),
    Field("serving.pp", "PP", "layout.*.pp", _S),
    Field("serving.dp", "DP", "layout.*.dp", _S),
    Field("serving.ep", "EP", "layout.*.ep", _S),
    Field("serving.gpus", "GPUs of the replicas", "layout.*.gpus", _S, needed=True),
    Field("serving.cpus", "CPUs of the replicas", "layout.*.cpus", _S, needed=True),
    Field("serving.nodes", "NUMA nodes of the replicas", "layout.*.numa_nodes", _S, needed=True),
    Field("serving.max_num_seqs", "max-num-seqs", "smoke.conditions.max_num_seqs", _S, needed=True),
    Field(
        "serving.max_num_batched_tokens",
        "max-num-batched-tokens",
        "smoke.conditions.max_num_batched_tokens",
        _S,
        needed=True,
    ),
    Field(
        "serving.max_model_len", "max-model-len", "smoke.conditions.max_model_len", _S, needed=True
    ),
    Field("serving.config", "engine setting", "requested.config", _S, needed=True),
    Field("serving.argv", "engine's arguments", "requested.argv", _S, needed=True),
    Field("serving.environment", "engine variable", "requested.environment", _S, needed=True),
    Field("serving.gateway", "gateway", "requested.gateway", _S),
    Field("serving.path", "path measured", "observed.path", _S, needed=True),
    # The machine.
    Field("machine.gpus", "GPUs", "state.gpus.*.name", _S, needed=True),
    Field("machine.uuids", "GPU boards", "state.gpus.*.uuid", _S),
    Field("machine.power_limit_mw", "power limit (mW)", "state.gpus.*.power_limit_mw", _S),
    Field("machine.ecc", "ECC", "state.gpus.*.ecc", _S),
    Field("machine.sm_clock_max", "highest SM clock (MHz)", "state.gpus.*.sm_clock_max_mhz", _S),
    Field("machine.pcie_width", "PCIe lanes", "state.gpus.*.pcie.max_width", _S),
    Field("machine.cpus", "CPU model", "state.cpus.model", _S),
    Field("machine.governors", "CPU governor", "state.kernel.governors", _S),
    Field("machine.cmdline", "kernel command line", "state.host.cmdline", _S),
    Field("machine.sysctls", "sysctl", "state.kernel.sysctls", _S),
    Field("machine.driver_options", "driver option", "state.kernel.driver_options", _S),
    # Conditions: what was so during the run.
    Field("observed.isl", "input tokens", "smoke.conditions.isl_measured.mean", _C, True, 2.0),
    Field("observed.osl", "output tokens", "smoke.conditions.osl_measured.mean", _C, True, 1.0),
    Field(
        "observed.prefix_hits", "prefix hit rate", "smoke.server.prefix_hit_rate", _C, slack=0.02
    ),
    Field("observed.preemptions", "preemptions", "smoke.server.preemptions", _C),
    Field("observed.queue_ms", "server's queue (ms)", "smoke.server.queue_mean_ms", _C, slack=2.0),
    Field("observed.tokens_per_chunk", "tokens a chunk", "smoke.tokens_per_chunk", _C, slack=0.1),
    Field("observed.jit", "kernels compiled meanwhile", "smoke.server.jit_warnings", _C),
    Field(
        "observed.acceptance",
        "accepted speculative tokens",
        "smoke.server.spec_acceptance_rate",
        _C,
        slack=0.02,
    ),
    Field(
        "observed.late_ms", "client late at P99 (ms)", "smoke.schedule_delay_ms.p99", _C, slack=5.0
    ),
    Field("observed.scheduler", "client's scheduler", "smoke.client.scheduler", _C, needed=True),
    Field("observed.client_cpus", "client's CPUs", "smoke.client.cpus", _C, needed=True),
    Field("observed.warmups", "uncounted requests", "smoke.conditions.warmups", _C),
    Field("observed.warm", "replicas warm", "state.notes.warm.*.warm", _C, needed=True),
    Field("observed.warm_rounds", "warm-up rounds", "observed.warm_rounds", _C, slack=3.0),
    Field(
        "observed.server_age_s",
        "servers' age (s)",
        "smoke.conditions.server_ages_s",
        _C,
        slack=3600,
    ),
    Field("observed.bound_nodes", "memory policy of replicas", "observed.bound_nodes", _C),
    Field("observed.sm_clock", "SM clock (MHz)", "smoke.gpus.*.sm_clock_mhz.median", _C, slack=60),
    Field("observed.power", "power draw (mW)", "smoke.gpus.*.power_usage_mw.median", _C, slack=1e5),
    Field("observed.hot", "GPU temperature (C)", "smoke.gpus.*.temperature_c.max", _C, slack=10),
    Field("observed.slowed", "GPUs slowed down", "observed.slowed", _C),
    Field("observed.ecc", "uncorrected ECC errors", "state.gpus.*.ecc_volatile_uncorrected", _C),
    Field("observed.xids", "Xid messages of this boot", "observed.xids", _C),
)
