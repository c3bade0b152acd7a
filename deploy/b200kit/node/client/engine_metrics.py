"""vLLM's own numbers: Prometheus text before and after a run, and what the difference says.

Histograms are used for their `_sum` and `_count` only (their lowest ITL bucket is 10 ms). Series of
one name are added up over their labels (one a model and engine). What is missing is an unmeasured
reading, never 0. Metric names: vLLM 0.32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from b200kit.node.client.chat import Endpoint
from b200kit.node.client.http import HttpDeadlines
from b200kit.node.client.message import HttpError
from b200kit.node.lib.documents import NEEDED
from b200kit.node.state.view import Unmeasured

TTFT = "vllm:time_to_first_token_seconds"
ITL = "vllm:inter_token_latency_seconds"
QUEUE = "vllm:request_queue_time_seconds"
PREEMPTIONS = "vllm:num_preemptions_total"
PREFIX_HITS = "vllm:prefix_cache_hits_total"
PREFIX_QUERIES = "vllm:prefix_cache_queries_total"
DRAFTED = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"

Sample = dict[str, float]
"""Series name (without labels) to the sum over its labels."""


def parse(text: str) -> Sample:
    """Prometheus text format to sums by name; lines that are not samples are skipped."""
    sums: Sample = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        name, _, rest = line.partition("{")
        if rest:
            rest = rest.rpartition("}")[2]
        else:
            name, _, rest = line.partition(" ")
        try:
            value = float(rest.split()[0])
        except (IndexError, ValueError):
            continue
        sums[name] = sums.get(name, 0.0) + value
    return sums


async def scrape(endpoint: Endpoint) -> Sample | str:
    """One server's metrics, or the reason why there are none."""
    answer = await endpoint.get("/metrics", HttpDeadlines(connect=2, idle=5, total=10))
    try:
        if answer.status != 200:
            return f"{endpoint.url}/metrics answered HTTP {answer.status}"
        return parse(answer.body().decode("utf-8", "replace"))
    except (HttpError, ValueError) as error:
        return f"{endpoint.url}/metrics: {answer.fault or error}"


_NOT_READ = Unmeasured("not read")


@dataclass(frozen=True)
class ServerFigures:
    """The servers' own numbers over the main path's run.

    On a node alone: kernels compiled meanwhile, the gateway's wait for a CPU, others' requests.
    """

    ttft_mean_ms: Unmeasured | float = field(default=_NOT_READ, metadata=NEEDED)
    itl_mean_ms: Unmeasured | float = field(default=_NOT_READ, metadata=NEEDED)
    queue_mean_ms: Unmeasured | float = field(default=_NOT_READ, metadata=NEEDED)
    preemptions: Unmeasured | int = field(default=_NOT_READ, metadata=NEEDED)
    prefix_hit_rate: Unmeasured | float = field(default=_NOT_READ, metadata=NEEDED)
    spec_acceptance_rate: Unmeasured | float = field(default=_NOT_READ, metadata=NEEDED)
    jit_warnings: Unmeasured | int | None = None
    gateway_run_delay_share: Unmeasured | float | None = None
    other_requests: Unmeasured | int | None = None

    @property
    def queue_share(self) -> float | None:
        """The part of their mean TTFT that requests spent in the queue; None: not known."""
        queue, ttft = self.queue_mean_ms, self.ttft_mean_ms
        return None if isinstance(queue, Unmeasured) or not ttft else queue / ttft

    @property
    def served_meanwhile(self) -> str:
        """That no figure is anybody's fault, and what to do; empty when nobody else was served."""
        if not self.other_requests:
            return ""
        return (
            f"not measured: {self.other_requests} other requests were served meanwhile; drain the"
            " node (docs/gateway.md) or measure at a quiet time"
        )


@dataclass(frozen=True)
class Delta:
    """Difference of two scrapes, added over replicas; `problem` when a scrape is missing."""

    before: Mapping[str, float]
    after: Mapping[str, float]
    problem: str | None = None

    @classmethod
    def over(cls, before: Sequence[Sample | str], after: Sequence[Sample | str]) -> Delta:
        """Combine all replicas' scrapes; one that failed makes the whole unmeasured."""
        failed = [item for item in (*before, *after) if isinstance(item, str)]
        return cls(_total(before), _total(after), failed[0] if failed else None)

    def of(self, name: str) -> float | str:
        """How much a counter grew, or why that is unknown."""
        if self.problem:
            return self.problem
        if name not in self.before or name not in self.after:
            return f"the servers have no metric {name}"
        grown = self.after[name] - self.before[name]
        return grown if grown >= 0 else f"{name} went backwards: a server restarted"

    def mean_ms(self, histogram: str) -> Unmeasured | float:
        """Mean of a histogram of seconds over the run, in ms."""
        return self.ratio(f"{histogram}_sum", f"{histogram}_count", 1000.0)

    def count(self, name: str) -> Unmeasured | int:
        """Growth of a counter."""
        grown = self.of(name)
        return Unmeasured(grown) if isinstance(grown, str) else round(grown)

    def ratio(self, above: str, below: str, scale: float = 1.0) -> Unmeasured | float:
        """Growth of one counter over that of another."""
        top, bottom = self.of(above), self.of(below)
        if isinstance(top, str) or isinstance(bottom, str):
            return Unmeasured(top if isinstance(top, str) else str(bottom))
        return top / bottom * scale if bottom else Unmeasured(f"{below} did not grow")

    def figures(self) -> ServerFigures:
        """What the servers say of themselves."""
        return ServerFigures(
            ttft_mean_ms=self.mean_ms(TTFT),
            itl_mean_ms=self.mean_ms(ITL),
            queue_mean_ms=self.mean_ms(QUEUE),
            preemptions=self.count(PREEMPTIONS),
            prefix_hit_rate=self.ratio(PREFIX_HITS, PREFIX_QUERIES),
            # Servers that do not speculate have no such series.
            spec_acceptance_rate=self.ratio(ACCEPTED, DRAFTED),
        )


def _total(scrapes: Sequence[Sample | str]) -> Sample:
    total: Sample = {}
    for scrape_ in scrapes:
        for name, value in scrape_.items() if isinstance(scrape_, dict) else ():
            total[name] = total.get(name, 0.0) + value
    return total
