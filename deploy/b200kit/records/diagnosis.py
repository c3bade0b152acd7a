"""From a result and its surroundings to what is probably wrong, as data says. Pure.

A rule (b200kit/catalog/diagnoses.yaml) fires when all its conditions hold. Logic has three values:
a condition whose reading is unmeasured makes a rule that is not refuted "not looked at", never
fired and never cleared. Each diagnosis quotes the values that it was made from and proposes one
change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from b200kit.node.client.formulas import PathFigures
from b200kit.node.client.percentiles import percentile
from b200kit.node.client.smoke_result import SmokeResult, slowed_by
from b200kit.node.state.view import Unmeasured, Unread
from b200kit.records.comparison import MedianAtTp
from b200kit.records.conditions import reach

SCHEMA = "b200kit/diagnosis/1"
_LIMITS = ("above", "at_least", "below", "at_most")


class RuleError(ValueError):
    """A rule that cannot be used, in one line with its name."""


@dataclass(frozen=True)
class Condition:
    """A symptom against a limit, such as above 3."""

    symptom: str
    limit: str
    threshold: float

    def holds(self, value: float) -> bool:
        """Whether a reading meets it."""
        return {
            "above": value > self.threshold,
            "at_least": value >= self.threshold,
            "below": value < self.threshold,
            "at_most": value <= self.threshold,
        }[self.limit]

    def describe(self, value: float) -> str:
        """The evidence: the value that was read and the limit it was compared with."""
        limit = f"{self.limit.replace('_', ' ')} {self.threshold:g}"
        return f"{SYMPTOMS[self.symptom].describe(value)} ({limit})"


@dataclass(frozen=True)
class Rule:
    """One diagnosis: when it fires, what it means, the one change it proposes.

    *unless*: what would explain the same better; where one of these holds the rule does not, and
    where one could not be read that is part of the evidence. *also*: symptoms quoted beside.
    *by_client*: it rests on times that the client took, which a starved client makes worthless.
    *source* says whose knowledge it is.
    """

    name: str
    symptom: str
    when: tuple[Condition, ...]
    cause: str
    change: str
    source: str
    unless: tuple[Condition, ...] = ()
    by_client: bool = True
    also: tuple[str, ...] = ()


def rules(document: Mapping[str, Any]) -> tuple[Rule, ...]:
    """The rules of a parsed diagnoses.yaml. Raises RuleError for one that cannot be used."""
    found = []
    for name, row in document["diagnoses"].items():
        try:
            found.append(_rule(name, row))
        except (KeyError, TypeError, ValueError) as error:
            raise RuleError(f"diagnosis {name}: {type(error).__name__}: {error}") from None
    return tuple(found)


def _rule(name: str, row: Mapping[str, Any]) -> Rule:
    return Rule(
        name=name,
        symptom=row["symptom"],
        when=tuple(_condition(entry) for entry in row["when"]),
        cause=row["cause"],
        change=row["change"],
        source=row["source"],
        unless=tuple(_condition(entry) for entry in row.get("unless", ())),
        by_client=row.get("by_client", True),
        also=tuple(row.get("also", ())),
    )


def _condition(entry: Mapping[str, Any]) -> Condition:
    limits = [key for key in entry if key in _LIMITS]
    if len(limits) != 1 or {*entry} != {"read", *limits}:
        raise ValueError(f"a condition has `read` and one of {', '.join(_LIMITS)}")
    if entry["read"] not in SYMPTOMS:
        raise ValueError(f"{entry['read']} is no symptom")
    return Condition(entry["read"], limits[0], float(entry[limits[0]]))


def diagnose(of: Diagnosed, known: Sequence[Rule]) -> dict[str, Any]:
    """What fires, what could not be looked at and why, and what was looked at and is not so."""
    read, unread = {}, {}
    for name, symptom in SYMPTOMS.items():
        try:
            read[name] = symptom.value(of)
        except Unread as error:
            unread[name] = error.reason
    states: dict[str, list[Any]] = {"fired": [], "unlooked": [], "cleared": []}
    for rule in known:
        state, entry = _applied(rule, read, unread)
        states[state].append(entry)
    return {"schema": SCHEMA, **states}


def _applied(
    rule: Rule, read: Mapping[str, float], unread: Mapping[str, str]
) -> tuple[str, object]:
    """Where a rule belongs, and what is reported of it there; *unread* says why by symptom."""
    if rule.by_client and read.get("client_starved") == 1.0:
        return "unlooked", _unlooked(rule, "the client starved, so its times are its own")
    if _refuted(rule.when, read, False) or _refuted(rule.unless, read, True):
        return "cleared", rule.name
    reasons = [unread[c.symptom] for c in rule.when if c.symptom in unread]
    if reasons:
        return "unlooked", _unlooked(rule, reasons[0])
    return "fired", {
        "name": rule.name,
        "symptom": rule.symptom,
        "evidence": list(_evidence(rule, read, unread)),
        "cause": rule.cause,
        "change": rule.change,
        "source": rule.source,
    }


def _refuted(conditions: Sequence[Condition], read: Mapping[str, float], holding: bool) -> bool:
    """Whether one of the conditions is known to hold, or known not to."""
    return any(c.holds(read[c.symptom]) is holding for c in conditions if c.symptom in read)


def _evidence(rule: Rule, read: Mapping[str, float], unread: Mapping[str, str]) -> Iterator[str]:
    """The values that made the rule fire, those quoted beside, and what could not be ruled out."""
    for condition in rule.when:
        yield condition.describe(read[condition.symptom])
    for name in rule.also:
        if name in read:
            yield SYMPTOMS[name].describe(read[name])
    for other in rule.unless:
        if why := unread.get(other.symptom):
            yield f"not ruled out, {SYMPTOMS[other.symptom].words}: {why}"


def _unlooked(rule: Rule, why: str) -> dict[str, str]:
    return {"name": rule.name, "symptom": rule.symptom, "why": f"could not look: {why}"}


_FEWEST = 20
"""Requests without which the first ones cannot be distinguished from the rest."""
Reading = Unmeasured | float | None


@dataclass(frozen=True)
class Diagnosed:
    """A result, the node's state and verdict as JSON, and its medians by tensor parallelism."""

    smoke: SmokeResult
    state: object
    verdict: object
    by_tp: tuple[MedianAtTp, ...] = ()


@dataclass(frozen=True)
class Symptom:
    """A quantity by what a person calls it, how it is read, and its unit."""

    words: str
    read: Callable[[Diagnosed], Reading]
    unit: str = ""

    def value(self, of: Diagnosed) -> float:
        """The number; raises Unread where there is none."""
        return _number(self.read(of), self.words)

    def describe(self, value: float) -> str:
        """The value as evidence quotes it."""
        return f"{self.words} {value:.4g}{self.unit}"


def _number(reading: Reading, what: str) -> float:
    if isinstance(reading, Unmeasured):
        raise Unread(what, reading.reason)
    if reading is None:
        raise Unread(what, f"the result has no {what}")
    return float(reading)


def _divided(above: Reading, below: Reading, what: str) -> float:
    over, under = _number(above, what), _number(below, what)
    if under <= 0:
        raise Unread(what, f"{what} is 0")
    return over / under


def _tail(of: Diagnosed) -> float:
    """TTFT's P99 over its P50, or its P95 where n carries no P99."""
    ttft = of.smoke.main.ttft
    return _divided(ttft.p99_ms or ttft.p95_ms, ttft.p50_ms, "TTFT")


def _first_requests(of: Diagnosed) -> float:
    """The first tenth's median TTFT over that of the second half."""
    found = of.smoke.ttfts_ms
    if len(found) < _FEWEST:
        raise Unread("TTFT", "the single TTFTs of enough requests are not in the result")
    half = percentile(found[len(found) // 2 :], 50)
    return _divided(percentile(found[: max(3, len(found) // 10)], 50), half, "TTFT")


def _polluted(of: Diagnosed) -> Reading:
    """The prefix hit rate, less what the model's own chat template puts before every prompt."""
    rate, prompt = of.smoke.server.prefix_hit_rate, _prompt_tokens(of)
    if isinstance(rate, Unmeasured):
        return rate
    return max(0.0, rate - (of.smoke.load.template_tokens / prompt if prompt else 0.0))


def _prompt_tokens(of: Diagnosed) -> float | None:
    counted = of.smoke.conditions.isl_measured
    return counted.mean if counted else None


def _merged(paths: Sequence[PathFigures], where: str) -> float:
    """The share of chunks that came together, on the worst of some paths."""
    known = [path.coalesced_share for path in paths if path.coalesced_share is not None]
    if len(known) < max(len(paths), 1):
        raise Unread("coalesced_share", f"the result has no chunks of the {where}")
    return max(known)


def _uneven(of: Diagnosed) -> float:
    """The slowest replica's median TPOT over the fastest one's."""
    found = [path.tpot.p50_ms for path in of.smoke.direct.values()]
    known = [value for value in found if value is not None]
    if len(known) < max(len(found), 2):
        raise Unread("TPOT", "fewer than two replicas were measured directly")
    return _divided(max(known), min(known), "TPOT")


def _misplaced(of: Diagnosed) -> float:
    """How many placement checks a replica fails."""
    findings = reach(of.verdict, "findings")
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


def _slowed(of: Diagnosed) -> float:
    """GPUs that were slowed down while the load ran.

    The clocks' event reasons are of one moment: read before or after the run they can show a
    slowdown, but not that there was none.
    """
    gpus = of.smoke.gpus
    during = [gpu.clocks_event_reasons for gpu in (() if isinstance(gpus, Unmeasured) else gpus)]
    if during and (slow := _count_slow(during)) is not None:
        return slow
    after = reach(of.state, "gpus")
    if slow := _count_slow([reach(gpu, "clocks_event_reasons") for gpu in _entries(after)]):
        return slow
    raise Unread("clocks", "the GPUs' clocks were not read during the run")


def _entries(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _count_slow(reasons: Sequence[object]) -> int | None:
    """How many GPUs were slowed; None where one was not read."""
    bits = [one for one in reasons if isinstance(one, int)]
    return sum(bool(slowed_by(one)) for one in bits) if len(bits) == len(reasons) else None


def _at_tp(position: int) -> Callable[[Diagnosed], MedianAtTp]:
    """The last tensor parallelism of the record, or the one before it."""

    def read(of: Diagnosed) -> MedianAtTp:
        if len(of.by_tp) < 2:
            raise Unread("record.by_tp", "the record has runs at one tensor parallelism only")
        return of.by_tp[position]

    return read


_SMALLER, _THIS = _at_tp(-2), _at_tp(-1)

SYMPTOMS: Mapping[str, Symptom] = {
    "client_starved": Symptom("client starved", lambda of: of.smoke.client.starved),
    "client_waited": Symptom("client's wait for a CPU", lambda of: of.smoke.client.run_delay_share),
    "itl_spikes": Symptom(
        "P99 over P50 of ITL",
        lambda of: _divided(of.smoke.main.itl.p99_ms, of.smoke.main.itl.p50_ms, "ITL"),
        "x",
    ),
    "itl_p99": Symptom("P99 of ITL", lambda of: of.smoke.main.itl.p99_ms, " ms"),
    "prompt_tokens": Symptom("mean prompt", _prompt_tokens, " tokens"),
    "batched_tokens": Symptom(
        "max-num-batched-tokens", lambda of: of.smoke.conditions.max_num_batched_tokens
    ),
    "max_num_seqs": Symptom("max-num-seqs", lambda of: of.smoke.conditions.max_num_seqs),
    "request_rate": Symptom("requests a second", lambda of: of.smoke.load.rate),
    "ttft_p50": Symptom("P50 of TTFT", lambda of: of.smoke.main.ttft.p50_ms, " ms"),
    "ttft_tail": Symptom("P99 (P95) over P50 of TTFT", _tail, "x"),
    "queue_ms": Symptom(
        "mean time in the servers' queue", lambda of: of.smoke.server.queue_mean_ms, " ms"
    ),
    "queue_share": Symptom(
        "queue's share of the servers' TTFT",
        lambda of: _divided(
            of.smoke.server.queue_mean_ms, of.smoke.server.ttft_mean_ms, "the servers' TTFT"
        ),
    ),
    "preemptions": Symptom("preemptions", lambda of: of.smoke.server.preemptions),
    "first_requests": Symptom("TTFT of the first tenth over the rest's", _first_requests, "x"),
    "prefix_hits": Symptom("prefix hit rate beyond the chat template", _polluted),
    "gateway_added": Symptom(
        "median TTFT added by the gateway", lambda of: of.smoke.gateway_overhead.p50_ttft_ms, " ms"
    ),
    "gateway_waited": Symptom(
        "gateway's wait for a CPU", lambda of: of.smoke.server.gateway_run_delay_share
    ),
    "cpu_wait_factor": Symptom(
        "cpu_wait_limit_factor of the inventory",
        lambda of: of.smoke.conditions.cpu_wait_limit_factor,
    ),
    "gateway_merged": Symptom(
        "chunks merged through the gateway", lambda of: _merged([of.smoke.main], "gateway")
    ),
    "direct_merged": Symptom(
        "chunks merged on the direct path",
        lambda of: _merged([*of.smoke.direct.values()], "replicas"),
    ),
    "misplaced": Symptom("placement findings that fail", _misplaced),
    "slowed_gpus": Symptom("GPUs slowed down", _slowed),
    "tokens_per_chunk": Symptom("tokens a chunk", lambda of: of.smoke.main.tokens_per_chunk),
    "uneven": Symptom("slowest over fastest replica's TPOT", _uneven, "x"),
    # 1.0 is nothing gained.
    "tp_gain": Symptom(
        "TPOT at the next smaller TP over this one's",
        lambda of: _divided(_SMALLER(of).tpot_ms, _THIS(of).tpot_ms, "TPOT"),
        "x",
    ),
    "smaller_tp": Symptom("smaller TP", lambda of: _SMALLER(of).tp),
    "smaller_tpot": Symptom("its TPOT", lambda of: _SMALLER(of).tpot_ms, " ms"),
    "this_tp": Symptom("this TP", lambda of: _THIS(of).tp),
    "this_tpot": Symptom("its TPOT", lambda of: _THIS(of).tpot_ms, " ms"),
}
