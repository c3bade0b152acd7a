"""What a smoke test found: smoke.json (docs/measure.md). Pure.

The node measures and writes it; the controller adds what its records make of it (`comparison`) and
what it holds for (`fingerprint`), and puts it back on the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from b200kit.node.client.client_health import ClientFigures
from b200kit.node.client.engine_metrics import ServerFigures
from b200kit.node.client.formulas import DelayFigures, PathFigures
from b200kit.node.client.golden.compare import HARMLESS, AnswersJudgement
from b200kit.node.client.golden.replicas import GoldenResult
from b200kit.node.client.judgement import GatewayOverhead, ReplicaComparison, VerdictWord
from b200kit.node.lib.documents import LARGE
from b200kit.node.state.serving import Objective
from b200kit.node.state.view import Unmeasured


@dataclass(frozen=True)
class RequestFigures:
    """One request, sent *at_s* after the first was due; one that failed has its error alone."""

    at_s: float
    ttft_ms: float | None
    tpot_ms: float | None
    itl_max_ms: float | None
    e2el_ms: float | None
    error: str | None


@dataclass(frozen=True)
class Extent:
    """The least, the median and the most of a reading."""

    min: float
    median: float
    max: float


@dataclass(frozen=True)
class GpuFigures:
    """What a GPU did while the load ran; clocks_event_reasons: all bits that occurred."""

    index: int
    samples: int
    sm_clock_mhz: Unmeasured | Extent
    power_usage_mw: Unmeasured | Extent
    temperature_c: Unmeasured | Extent
    clocks_event_reasons: Unmeasured | int


@dataclass(frozen=True)
class TokenCounts:
    """Tokens that `usage` counted over completed requests."""

    min: int
    mean: float
    max: int


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen, and whether all answers are of the requested length."""

    temperature: float
    ignore_eos: bool


@dataclass(frozen=True)
class SentLoad:
    """What was sent; rate: requests a second, None for a closed loop; isl, osl: in tokens."""

    seed: int
    cache_salt: str
    arrival: str
    rate: float | None
    isl_requested: int
    osl_requested: int
    prompts: str
    sampling: Sampling
    template_tokens: float
    warmups: int
    connection: str


_NO_NODE = Unmeasured("not a node")


@dataclass(frozen=True)
class SmokeConditions:
    """What else decides the figures; same_text: of two equal requests. A node has all of it."""

    model: str
    engine_version: str | None
    requests: int
    objective: Objective
    same_text: bool | None
    isl_measured: TokenCounts | None
    osl_measured: TokenCounts | None
    stand_in: bool = False
    engine: str | None = None
    direct_requests: int = 0
    replicas: int | None = None
    max_num_seqs: int | None = None
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    cpu_wait_limit_factor: float = 1.0
    server_ages_s: Unmeasured | tuple[float, ...] = _NO_NODE
    libraries: Unmeasured | Mapping[str, str] = _NO_NODE


@dataclass(frozen=True)
class Predicted:
    """A median of one run, the baseline's centre, and where that lets one more run lie."""

    value: float
    usual: float
    low: float
    high: float
    inside: bool


@dataclass(frozen=True)
class AcceptedBy:
    """The entry of the record by which somebody accepted a baseline."""

    at: str
    by: str
    why: str
    id: str


@dataclass(frozen=True)
class BaselineComparison:
    """A run against the node's accepted baseline; metrics: by name, as "tpot".

    none: there is no baseline. unknown: it cannot be compared with the one there is.
    """

    outcome: Literal["usual", "slower", "none", "unknown"]
    why: str
    metrics: Mapping[str, Predicted] = field(default_factory=dict)
    baseline: AcceptedBy | None = None


@dataclass(frozen=True)
class SmokeResult:
    """A smoke test that is over.

    path: of *main*, "gateway" of a node. direct: each replica's, by "direct-0". ttfts_ms, itls_ms:
    of main, to a microsecond. requests: of main, in due order, thinned out evenly if they are many.
    """

    schema: ClassVar[str] = "b200kit/smoke/2"
    most_bytes: ClassVar[int] = LARGE

    taken_at: str
    verdict: VerdictWord
    reasons: tuple[str, ...]
    path: str
    main: PathFigures
    direct: Mapping[str, PathFigures]
    gateway_overhead: GatewayOverhead
    replicas: ReplicaComparison | None
    ttfts_ms: tuple[float, ...]
    itls_ms: tuple[float, ...]
    requests: tuple[RequestFigures, ...]
    schedule_delay_ms: DelayFigures
    connect_ms: DelayFigures
    formulas: Mapping[str, str]
    client: ClientFigures
    server: ServerFigures
    gpus: Unmeasured | tuple[GpuFigures, ...]
    golden: Unmeasured | GoldenResult
    load: SentLoad
    conditions: SmokeConditions
    comparison: BaselineComparison | None = None
    fingerprint: str = ""

    @property
    def paths(self) -> dict[str, PathFigures]:
        """The figures of every path, the main one first; empty where no load was sent."""
        return {self.path: self.main, **self.direct} if self.main.num_prompts else {}

    @property
    def why(self) -> str:
        """The reasons on one line."""
        return "; ".join(self.reasons) or "no reason given"

    def without_series(self) -> SmokeResult:
        """The same without what is of single requests, GPUs and answers."""
        none = Unmeasured("not kept")
        return replace(self, ttfts_ms=(), itls_ms=(), requests=(), gpus=none, golden=none)

    def with_answers(self, found: AnswersJudgement) -> SmokeResult:
        """The same with what a comparison makes of its answers, where it has any.

        A replica that answers otherwise fails the test, whatever else is in doubt; what cannot be
        compared is not healthy. Answers that are the reference's are not kept.
        """
        if isinstance(self.golden, Unmeasured):
            return self
        is_harmless = found.outcome in HARMLESS
        answers = {} if is_harmless else self.golden.answers
        kept = replace(self, golden=replace(self.golden, reference=found, answers=answers))
        if is_harmless:
            return kept
        if found.faults:
            return replace(kept, verdict="fail", reasons=(*found.faults, *self.reasons))
        reasons = (*self.reasons, f"answers cannot be compared: {found.why}")
        verdict = "invalid" if self.verdict == "pass" else self.verdict
        return replace(kept, verdict=verdict, reasons=reasons)
