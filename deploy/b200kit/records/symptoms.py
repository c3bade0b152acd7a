"""What the diagnosis looks at: named quantities drawn from a result and its surroundings. Pure.

Each takes the document {"smoke", "state", "verdict", "record"} (a HostRecord) and gives a number;
Unread says why there is none. A number that another reading makes meaningless is none, not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from b200kit.node.client.percentiles import percentile
from b200kit.node.latency.gpu_samples import slowed_by
from b200kit.node.state.path import known_number, number, reach
from b200kit.node.state.view import Unread

_FEWEST = 20
"""Requests without which the first ones cannot be distinguished from the rest."""


@dataclass(frozen=True)
class Symptom:
    """A quantity by what a person calls it, how it is read, and its unit."""

    words: str
    read: Callable[[object], float]
    unit: str = ""

    def describe(self, value: float) -> str:
        """The value as evidence quotes it."""
        return f"{self.words} {value:.4g}{self.unit}"


def _at(path: str) -> Callable[[object], float]:
    return lambda document: number(document, path)


def _divided(above: float, below: float, what: str) -> float:
    if below <= 0:
        raise Unread(what, f"{what} is 0")
    return above / below


def _ratio(above: str, below: str) -> Callable[[object], float]:
    return lambda document: _divided(number(document, above), number(document, below), below)


def _tail(document: object) -> float:
    """TTFT's P99 over its P50, or its P95 where n carries no P99."""
    far = known_number(document, "smoke.p99_ttft_ms")
    far = number(document, "smoke.p95_ttft_ms") if far is None else far
    return _divided(far, number(document, "smoke.p50_ttft_ms"), "TTFT's P50")


def _first_requests(document: object) -> float:
    """The first tenth's median TTFT over that of the second half."""
    found = reach(document, "smoke.ttfts_ms")
    numbers = isinstance(found, list) and all(type(value) in (int, float) for value in found)
    if not numbers or not isinstance(found, list) or len(found) < _FEWEST:
        raise Unread("TTFT", "the single TTFTs of enough requests are not in the result")
    half = percentile(found[len(found) // 2 :], 50)
    return _divided(percentile(found[: max(3, len(found) // 10)], 50), half, "TTFT")


def _distinct(document: object) -> float:
    """1 where no two prompts share a prefix, 0 where they may."""
    prompts = reach(document, "smoke.conditions.prompts")
    if not isinstance(prompts, str):
        raise Unread("prompts", "the result does not name its prompts")
    return float(prompts.endswith("; no prefix shared"))


def _polluted(document: object) -> float:
    """The prefix hit rate, less what the model's own chat template puts before every prompt."""
    rate, share = number(document, "smoke.server.prefix_hit_rate"), 0.0
    with suppress(Unread):
        template = number(document, "smoke.conditions.template_tokens")
        prompt = number(document, "smoke.conditions.isl_measured.mean")
        share = _divided(template, prompt, "the prompts' length")
    return max(0.0, rate - share)


def _merged(direct: bool) -> Callable[[object], float]:
    """The share of chunks that came together, on the gateway's path or the worst direct one."""
    why = f"the result has no chunks of the {'replicas' if direct else 'gateway'}"
    return lambda document: max(_of_paths(document, direct, "coalesced_share", 1, why))


def _of_paths(document: object, direct: bool, key: str, fewest: int, why: str) -> list[float]:
    """A figure of every direct path or of every other; *why* says that there are too few."""
    paths = reach(document, "smoke.paths")
    found = [
        known_number(path, key)
        for name, path in (paths.items() if isinstance(paths, Mapping) else ())
        if str(name).startswith("direct") is direct
    ]
    known = [value for value in found if value is not None]
    if len(known) < max(len(found), fewest):
        raise Unread(key, why)
    return known


def _uneven(document: object) -> float:
    """The slowest replica's median TPOT over the fastest one's."""
    why = "fewer than two replicas were measured directly"
    known = _of_paths(document, True, "p50_tpot_ms", 2, why)
    return _divided(max(known), min(known), "TPOT")


def _misplaced(document: object) -> float:
    """How many placement checks a replica fails."""
    findings = reach(document, "verdict.findings")
    if not isinstance(findings, list):
        raise Unread("placement", "there is no verdict")
    own = [f for f in findings if str(reach(f, "check")).startswith("placement.")]
    failed = [f for f in own if reach(f, "status") == "fail"]
    if failed:
        return float(len(failed))
    looked = [f for f in own if str(reach(f, "subject")) not in ("node", "")]
    silent = [f for f in own if reach(f, "status") == "unmeasured"]
    if silent or not _was_judged(own, looked):
        why = reach(silent[0], "summary") if silent else "no running replica's placement was judged"
        raise Unread("placement", str(why))
    return 0.0


def _was_judged(own: Sequence[object], looked: Sequence[object]) -> bool:
    """Whether a pass among the findings says that a replica was looked at, not that none was."""
    summaries = [str(reach(finding, "summary")) for finding in own]
    return bool(looked) or any(text.startswith("every process") for text in summaries)


def _slowed(document: object) -> float:
    """GPUs that were slowed down while the load ran.

    The clocks' event reasons are of one moment: read before or after the run they can show a
    slowdown, but not that there was none.
    """
    during = _slow(document, "smoke.gpus.*.clocks_event_reasons")
    slow = _slow(document, "state.gpus.*.clocks_event_reasons") if during is None else during
    if slow or during is not None:
        return float(slow or 0)
    raise Unread("clocks", "the GPUs' clocks were not read during the run")


def _slow(document: object, path: str) -> int | None:
    """How many GPUs were slowed by reasons at a path; None where not all of them are there."""
    value = reach(document, path)
    found = value if isinstance(value, list) else [value]
    bits = [entry for entry in found if isinstance(entry, int)]
    return sum(bool(slowed_by(entry)) for entry in bits) if bits and bits == found else None


def _of_tp(position: int, key: str) -> Callable[[object], float]:
    """A figure of the last tensor parallelism of the record, or of the one before it."""

    def read(document: object) -> float:
        found = reach(document, "record.by_tp")
        if not isinstance(found, list) or len(found) < 2:
            raise Unread("record.by_tp", "the record has runs at one tensor parallelism only")
        return number(found[position], key)

    return read


def _gained(document: object) -> float:
    """TPOT at the next smaller TP over that at this one: 1.0 is nothing gained."""
    below, above = (_of_tp(position, "tpot_ms")(document) for position in (-2, -1))
    return _divided(below, above, "TPOT")


def _starved(document: object) -> float:
    flag = reach(document, "smoke.client.starved")
    if not isinstance(flag, bool):
        raise Unread("client", "the client reported nothing of itself")
    return float(flag)


SYMPTOMS: Mapping[str, Symptom] = {
    "client_starved": Symptom("client starved", _starved),
    "client_waited": Symptom("client's wait for a CPU", _at("smoke.client.run_delay_share")),
    "itl_spikes": Symptom(
        "P99 over P50 of ITL", _ratio("smoke.p99_itl_ms", "smoke.p50_itl_ms"), "x"
    ),
    "itl_p99": Symptom("P99 of ITL", _at("smoke.p99_itl_ms"), " ms"),
    "prompt_tokens": Symptom("mean prompt", _at("smoke.conditions.isl_measured.mean"), " tokens"),
    "batched_tokens": Symptom(
        "max-num-batched-tokens", _at("smoke.conditions.max_num_batched_tokens")
    ),
    "max_num_seqs": Symptom("max-num-seqs", _at("smoke.conditions.max_num_seqs")),
    "request_rate": Symptom("requests a second", _at("smoke.request_rate")),
    "ttft_p50": Symptom("P50 of TTFT", _at("smoke.p50_ttft_ms"), " ms"),
    "ttft_tail": Symptom("P99 (P95) over P50 of TTFT", _tail, "x"),
    "queue_ms": Symptom(
        "mean time in the servers' queue", _at("smoke.server.queue_mean_ms"), " ms"
    ),
    "queue_share": Symptom(
        "queue's share of the servers' TTFT",
        _ratio("smoke.server.queue_mean_ms", "smoke.server.ttft_mean_ms"),
    ),
    "preemptions": Symptom("preemptions", _at("smoke.server.preemptions")),
    "first_requests": Symptom("TTFT of the first tenth over the rest's", _first_requests, "x"),
    "prefix_hits": Symptom("prefix hit rate beyond the chat template", _polluted),
    "distinct_prompts": Symptom("prompts with no prefix in common (1 = all)", _distinct),
    "gateway_added": Symptom(
        "median TTFT added by the gateway", _at("smoke.gateway_overhead.p50_ttft_ms"), " ms"
    ),
    "gateway_waited": Symptom(
        "gateway's wait for a CPU", _at("smoke.server.gateway_run_delay_share")
    ),
    "gateway_merged": Symptom("chunks merged through the gateway", _merged(direct=False)),
    "direct_merged": Symptom("chunks merged on the direct path", _merged(direct=True)),
    "misplaced": Symptom("placement findings that fail", _misplaced),
    "slowed_gpus": Symptom("GPUs slowed down", _slowed),
    "tokens_per_chunk": Symptom("tokens a chunk", _at("smoke.tokens_per_chunk")),
    "uneven": Symptom("slowest over fastest replica's TPOT", _uneven, "x"),
    "tp_gain": Symptom("TPOT at the next smaller TP over this one's", _gained, "x"),
    "smaller_tp": Symptom("smaller TP", _of_tp(-2, "tp")),
    "smaller_tpot": Symptom("its TPOT", _of_tp(-2, "tpot_ms"), " ms"),
    "this_tp": Symptom("this TP", _of_tp(-1, "tp")),
    "this_tpot": Symptom("its TPOT", _of_tp(-1, "tpot_ms"), " ms"),
}
