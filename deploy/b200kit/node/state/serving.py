"""What a node serves, and how it is warmed up, watched, restarted and measured: serving.json. Pure.

The controller writes it (b200kit/stages/serving.py), the commands of the node program read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

from b200kit.node.lib.documents import Range
from b200kit.node.state.mend import MendRules
from b200kit.node.state.watch import HealthRules
from b200kit.node.state.watchdog import WatchdogRules

if TYPE_CHECKING:
    from b200kit.node.client.formulas import Timing

Count = Annotated[int, Range(0)]
Some = Annotated[int, Range(1)]
Positive = Annotated[float, Range(0, above=True)]


@dataclass(frozen=True)
class Objective:
    """Goodput objectives in milliseconds; None = not asked. Share = how many must meet them."""

    ttft_ms: Positive | None = None
    tpot_ms: Positive | None = None
    e2el_ms: Positive | None = None
    share: Annotated[float, Range(0, 1, above=True)] = 0.95

    @property
    def limits(self) -> dict[str, float]:
        """What is asked, by metric."""
        every = {"ttft": self.ttft_ms, "tpot": self.tpot_ms, "e2el": self.e2el_ms}
        return {name: value for name, value in every.items() if value is not None}

    def __str__(self) -> str:
        """ttft <= 100 ms, tpot <= 100 ms."""
        return ", ".join(f"{name} <= {value:g} ms" for name, value in self.limits.items())

    def met_by(self, timing: Timing) -> bool:
        """Whether one request meets all of them (TPOT of a one-token answer counts as 0)."""
        pairs = (
            (self.ttft_ms, timing.ttft),
            (self.tpot_ms, timing.tpot or 0.0),
            (self.e2el_ms, timing.e2el),
        )
        return all(limit is None or value * 1000 <= limit for limit, value in pairs)


@dataclass(frozen=True)
class WarmPlan:
    """How long and how exactly to warm up. tolerance: share by which two rounds may differ.

    features: what the server has besides completions (b200kit/node/state/warmup_features.py);
    system_prompts: files with the texts that production requests begin with.
    """

    timeout_s: Positive = 600.0
    tolerance: Positive = 0.1
    max_rounds: Some = 12
    features: tuple[str, ...] = ()
    system_prompts: tuple[str, ...] = ()


@dataclass(frozen=True)
class WatchdogPlan:
    """When a replica hangs and a fault of the node counts, whose faults take replicas out (checks,
    or first words of their ids), what is mended, and by which counters an engine shows progress.
    """

    rules: WatchdogRules = field(default_factory=WatchdogRules)
    health_rules: HealthRules = field(default_factory=HealthRules)
    takes_out: tuple[str, ...] = ()
    mend_rules: MendRules = field(default_factory=MendRules)
    waiting: str = "vllm:num_requests_waiting"
    gaps: str = "vllm:inter_token_latency_seconds"
    progress: tuple[str, ...] = ("vllm:generation_tokens_total", "vllm:prompt_tokens_total")


@dataclass(frozen=True)
class RollingRestartPlan:
    """A rolling restart: replicas that must stay available, seconds for open requests to end.

    in_flight: the engine's series that add up to the requests it has.
    """

    min_available: Count = 0
    restart_drain_s: Positive = 600.0
    in_flight: tuple[str, ...] = ("vllm:num_requests_running", "vllm:num_requests_waiting")


@dataclass(frozen=True)
class SmokePlan:
    """The smoke run: `requests` at `rate` a second through the gateway, then direct ones.

    direct_requests: to each replica. replica_slowdown, stall_ms: `LowLoad`.
    golden_tokens: asked for a golden prompt, 0 for none; golden_tolerance: golden/prompts.py.
    prompts: "words", "texts" or a file of this node; prompts_name: with its digest.
    """

    requests: Some = 180
    rate: Positive = 6.0
    input_tokens: Some = 128
    output_tokens: Some = 64
    direct_requests: Some = 80
    replica_slowdown: Positive | None = 0.1
    stall_ms: Positive = 1000.0
    golden_tokens: Count = 32
    golden_tolerance: Positive = 0.5
    gateway_limit_ms: Positive = 50.0
    loop_lag_ms: Positive = 10.0
    cpu_wait_limit_factor: Positive = 1.0
    goodput: Objective = field(default_factory=lambda: Objective(ttft_ms=100.0, tpot_ms=100.0))
    prompts: str = "words"
    prompts_name: str = ""


@dataclass(frozen=True)
class ServedReplica:
    """One serving process, and the UUIDs of its GPUs."""

    index: Count
    url: str
    unit: str
    uuids: tuple[str, ...]


@dataclass(frozen=True)
class PeerGroup:
    """What several nodes that serve one replica need: the unit, its user, the peers to watch."""

    unit: str
    user: str
    peers: tuple[str, ...]
    headless: bool = False


@dataclass(frozen=True)
class Serving:
    """What a node serves and how it is warmed up, watched, restarted and measured.

    golden_for: names the configuration that a reference of golden answers must be of.
    gateway_trust: the gateway's own certificate, where it has one.
    """

    schema: ClassVar[str] = "b200kit/serving/1"

    model: str
    engine: str
    gateway: str
    replicas: tuple[ServedReplica, ...]
    max_num_seqs: Some
    max_model_len: Some
    max_num_batched_tokens: Some
    stand_in: bool = False
    gateway_trust: str | None = None
    api_key_file: str | None = None
    client_cpus: str | None = None
    golden_for: str = ""
    group: PeerGroup | None = None
    warm: WarmPlan = field(default_factory=WarmPlan)
    smoke: SmokePlan = field(default_factory=SmokePlan)
    watchdog: WatchdogPlan = field(default_factory=WatchdogPlan)
    rolling_restart: RollingRestartPlan = field(default_factory=RollingRestartPlan)
