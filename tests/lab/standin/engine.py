"""The pretended engine: admission up to max-num-seqs, a set schedule of tokens, and its metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from .knobs import Knobs

TEMPLATE_TOKENS = 13
BLOCK = 16
"""Tokens of a block of the prefix cache, as vLLM's default."""
HISTOGRAMS = (
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "request_time_per_output_token_seconds",
    "e2e_request_latency_seconds",
    "request_queue_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
    "request_inference_time_seconds",
)
# As vLLM's own; the other histograms have the last bucket alone.
BUCKETS = {
    "time_to_first_token_seconds": (
        0.001,
        0.005,
        0.01,
        0.02,
        0.04,
        0.06,
        0.08,
        0.1,
        0.25,
        0.5,
        1.0,
    ),
    "inter_token_latency_seconds": (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 1.0),
}
COUNTERS = (
    "num_preemptions_total",
    "prefix_cache_queries_total",
    "prefix_cache_hits_total",
    "prompt_tokens_total",
    "generation_tokens_total",
    "admission_rejections_total",
)


@dataclass
class Metrics:
    """Counters and histograms under vLLM's names (`vllm:` in front, one engine)."""

    model: str
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(HISTOGRAMS, 0.0))
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(HISTOGRAMS, 0))
    counters: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0.0))
    buckets: dict[str, list[int]] = field(
        default_factory=lambda: {name: [0] * len(bounds) for name, bounds in BUCKETS.items()}
    )
    running: int = 0
    waiting: int = 0
    succeeded: int = 0

    def observe(self, name: str, value: float) -> None:
        """One observation of a histogram."""
        self.sums[name] += value
        self.counts[name] += 1
        for number, bound in enumerate(BUCKETS.get(name, ())):
            self.buckets[name][number] += value <= bound

    def text(self) -> str:
        """The Prometheus page."""
        labels = f'{{engine="0",model_name="{self.model}"}}'
        lines = []
        for name, total in self.sums.items():
            lines += [f"# TYPE vllm:{name} histogram"]
            for bound, count in zip(BUCKETS.get(name, ()), self.buckets.get(name, ()), strict=True):
                lines += [f'vllm:{name}_bucket{labels[:-1]},le="{bound}"}} {count}']
            bucket = labels[:-1] + ',le="+Inf"}'
            lines += [f"vllm:{name}_bucket{bucket} {self.counts[name]}"]
            lines += [f"vllm:{name}_sum{labels} {total}"]
            lines += [f"vllm:{name}_count{labels} {self.counts[name]}"]
        for name, value in self.counters.items():
            lines += [f"# TYPE vllm:{name} counter", f"vllm:{name}{labels} {value}"]
        gauges = {"num_requests_running": self.running, "num_requests_waiting": self.waiting}
        for name, value in {**gauges, "kv_cache_usage_perc": 0.0}.items():
            lines += [f"# TYPE vllm:{name} gauge", f"vllm:{name}{labels} {float(value)}"]
        reason = labels[:-1] + ',finished_reason="length"}'
        lines += ["# TYPE vllm:request_success_total counter"]
        lines += [f"vllm:request_success_total{reason} {self.succeeded}"]
        return "\n".join(lines) + "\n"


class Engine:
    """Hands out token times; every token comes at a set time after the request was admitted."""

    def __init__(self, model: str, max_num_seqs: int, knobs: Knobs) -> None:
        self.knobs = knobs
        self.metrics = Metrics(model)
        self._slots = asyncio.Semaphore(max_num_seqs)
        self._served = 0
        self._seen: set[int] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()

    def hang(self) -> None:
        """Make no token any more, for nobody, as an engine that has locked itself up."""
        self._flowing.clear()

    def count(self, prompt: str, salt: str) -> int:
        """Prompt tokens (a word each, and the template), entered into the prefix-cache metrics.

        As vLLM's, the cache has whole blocks, each after all those before it.
        """
        words = ["template"] * TEMPLATE_TOKENS + prompt.split()
        tokens = len(words)
        counters = self.metrics.counters
        counters["prefix_cache_queries_total"] += tokens
        before = hash(salt)
        blocks = []
        for end in range(BLOCK, tokens + 1, BLOCK):
            before = hash((before, *words[end - BLOCK : end]))
            blocks.append(before)
        counters["prefix_cache_hits_total"] += BLOCK * sum(block in self._seen for block in blocks)
        self._seen.update(blocks)
        return tokens

    async def tokens(self, wanted: int, prompt: int) -> AsyncIterator[int]:
        """Yield 0..wanted-1, each when its time has come; waits for a free slot first.

        The schedule is absolute (admission + ttft + i * itl), so lateness does not add up.
        """
        arrived = time.perf_counter()
        self.metrics.waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self.metrics.waiting -= 1
        self.metrics.running += 1
        try:
            async for index in self._schedule(arrived, wanted):
                # As vLLM does: a prompt counts when it has been worked through.
                self.metrics.counters["prompt_tokens_total"] += 0 if index else prompt
                yield index
        finally:
            self.metrics.running -= 1
            self._slots.release()

    async def _schedule(self, arrived: float, wanted: int) -> AsyncIterator[int]:
        knobs, metrics = self.knobs, self.metrics
        admitted = time.perf_counter()
        metrics.observe("request_queue_time_seconds", admitted - arrived)
        extra = knobs.first_extra if self._served < knobs.first_count else 0.0
        self._served += 1
        first = last = admitted
        for index in range(wanted):
            due = admitted + extra + knobs.ttft + index * knobs.itl
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await self._flowing.wait()
            now = time.perf_counter()
            if index == 0:
                first = now
                metrics.observe("time_to_first_token_seconds", now - arrived)
                metrics.observe("request_prefill_time_seconds", now - admitted)
            else:
                metrics.observe("inter_token_latency_seconds", now - last)
            last = now
            metrics.counters["generation_tokens_total"] += 1
            yield index
        metrics.observe("e2e_request_latency_seconds", last - arrived)
        metrics.observe("request_decode_time_seconds", last - first)
        metrics.observe("request_inference_time_seconds", last - admitted)
        if wanted > 1:
            per_token = (last - first) / (wanted - 1)
            metrics.observe("request_time_per_output_token_seconds", per_token)
        metrics.succeeded += 1
