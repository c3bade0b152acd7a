"""When a replica counts as stalled, by its counters alone; and when its answers are wrong."""

from __future__ import annotations

import asyncio

import pytest

from b200kit.node.agent.probe import AnswerQuorum, Prober
from b200kit.node.client import engine_metrics
from b200kit.node.client.chat import Endpoint
from b200kit.node.client.golden import ask as golden
from b200kit.node.client.golden.reference import Reference
from b200kit.node.state.pace import Pace
from b200kit.node.state.serving import WatchdogPlan
from b200kit.node.state.watchdog import ProbeOutcome, WatchdogRules
from tests.subtests import in_subtests
from tests.unit.node.client.server_thread import MODEL, fast, running

RULES = WatchdogRules(stall_s=60, deadline_s=300)


@pytest.mark.parametrize(
    ("seconds", "outcome"), [(59.9, ProbeOutcome.NO_ANSWER), (60.0, ProbeOutcome.STALLED)]
)
def test_requests_that_wait_without_a_token_for_the_whole_time_are_a_stall(
    monkeypatch: pytest.MonkeyPatch, seconds: float, outcome: ProbeOutcome
) -> None:
    async def scrape(endpoint: Endpoint) -> dict[str, float]:
        del endpoint
        return {"vllm:generation_tokens_total": 5.0, "vllm:num_requests_waiting": 1.0}

    monkeypatch.setattr(engine_metrics, "scrape", scrape)
    now = [0.0]
    nobody = Endpoint("http://127.0.0.1:1")
    prober = Prober(nobody, MODEL, WatchdogPlan(RULES), clock=lambda: now[0])
    asyncio.run(prober.probe())
    now[0] = seconds
    assert asyncio.run(prober.probe()).outcome is outcome


def test_replica_whose_tokens_take_longer_than_the_others_is_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gaps, seconds, now = [0.0], {"a": 0.01, "c": 0.01, "b": 0.09}, [0.0]

    async def scrape(endpoint: Endpoint) -> dict[str, float]:
        del endpoint
        total = gaps[0] * seconds[asked[0]]
        series = "vllm:inter_token_latency_seconds"
        return {f"{series}_sum": total, f"{series}_count": gaps[0]}

    monkeypatch.setattr(engine_metrics, "scrape", scrape)
    pace, asked, found = Pace(), [""], {}
    with running() as url:
        for gaps[0] in (0.0, 1000.0, 2000.0):
            now[0] += 15
            for asked[0] in seconds:
                prober = Prober(
                    Endpoint(url),
                    MODEL,
                    WatchdogPlan(RULES),
                    clock=lambda: now[0],
                    pace=pace,
                    name=asked[0],
                )
                found[asked[0]] = asyncio.run(prober.probe()).outcome
    assert found == {"a": ProbeOutcome.ANSWERED, "c": ProbeOutcome.ANSWERED, "b": ProbeOutcome.SLOW}


IDLE = {"vllm:generation_tokens_total": 5.0, "vllm:num_requests_running": 0.0}
BUSY = {**IDLE, "vllm:num_requests_running": 1.0}
AGAIN = {**IDLE, "vllm:generation_tokens_total": 1.0}


def reading(
    monkeypatch: pytest.MonkeyPatch,
    faults: list[str],
    samples: list[dict[str, float]],
    alike: AnswerQuorum | None = None,
) -> list[ProbeOutcome]:
    """What probes of a replica find that has been so, one after the other."""
    with running() as url:
        said = asyncio.run(golden.ask(Endpoint(url), MODEL, 8, "kept")).answers
    known, now = Reference(said, 8, "n01, today", "this"), [IDLE]

    async def scrape(endpoint: Endpoint) -> dict[str, float]:
        del endpoint
        return now[0]

    monkeypatch.setattr(engine_metrics, "scrape", scrape)
    series = ("vllm:num_requests_running",)
    plan = WatchdogPlan(WatchdogRules(strikes=2, deadline_s=300))
    votes = alike or AnswerQuorum()
    prober = Prober(
        Endpoint(""),
        MODEL,
        plan,
        reference=lambda: known,
        in_flight=series,
        alike=votes,
        name="own",
    )
    found = []
    with running() as sound, running(fast("garbled")) as garbled, running(fast("parrot")) as parrot:
        where = {"": sound, "garbled": garbled, "parrot": parrot}
        for fault, now[0] in zip(faults, samples, strict=True):
            prober.endpoint = Endpoint(where[fault])
            found.append(asyncio.run(prober.probe()).outcome)
    return found


ANSWERED, IN_DOUBT, WRONG = ProbeOutcome.ANSWERED, ProbeOutcome.IN_DOUBT, ProbeOutcome.WRONG


@in_subtests(
    ("faults", "samples", "outcomes"),
    [
        ([""] * 3, [IDLE] * 3, [ANSWERED] * 3),
        (["garbled"] * 3, [IDLE] * 3, [IN_DOUBT, WRONG, WRONG]),
        (["parrot"] * 2, [IDLE] * 2, [IN_DOUBT, WRONG]),
        # Once is no proof.
        (["garbled", "", "garbled"], [IDLE] * 3, [IN_DOUBT, ANSWERED, ANSWERED]),
        # One that is never idle is not blamed; what is in doubt stays so until it is.
        (["garbled"] * 3, [BUSY] * 3, [ANSWERED] * 3),
        (["garbled"] * 3, [IDLE, BUSY, IDLE], [IN_DOUBT, IN_DOUBT, WRONG]),
        # Not at each probe, but again as soon as it was started again.
        (["", "garbled", "garbled"], [IDLE, IDLE, AGAIN], [ANSWERED, ANSWERED, IN_DOUBT]),
    ],
)
def test_idle_replica_that_answers_otherwise_than_the_reference_is_found(
    monkeypatch: pytest.MonkeyPatch,
    faults: list[str],
    samples: list[dict[str, float]],
    outcomes: list[ProbeOutcome],
) -> None:
    assert reading(monkeypatch, faults, samples) == outcomes


@pytest.mark.parametrize(
    ("others", "outcomes"),
    [
        ({}, [IN_DOUBT, IN_DOUBT]),
        ({"other": False}, [IN_DOUBT, IN_DOUBT]),
        ({"other": False, "third": True}, [IN_DOUBT, WRONG]),
    ],
    ids=str,
)
def test_reference_that_no_other_replica_answers_like_takes_none_out(
    monkeypatch: pytest.MonkeyPatch, others: dict[str, bool], outcomes: list[ProbeOutcome]
) -> None:
    alike = AnswerQuorum(3, dict(others))
    assert reading(monkeypatch, ["garbled"] * 2, [IDLE] * 2, alike) == outcomes
    assert alike.found == others | {"own": False}
