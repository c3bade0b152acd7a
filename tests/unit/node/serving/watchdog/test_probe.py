"""When a replica counts as stalled: by its counters alone, before it is sent anything."""

from __future__ import annotations

import asyncio

import pytest

from b200kit.node.client import engine_metrics
from b200kit.node.client.chat import Endpoint
from b200kit.node.client.serving_config import WatchdogPlan
from b200kit.node.serving.watchdog.probe import Prober
from b200kit.node.state.watchdog import Outcome, Rules
from tests.unit.node.client.server_thread import MODEL

RULES = Rules(stall_s=60, deadline_s=0.2)


@pytest.mark.parametrize(
    ("seconds", "outcome"), [(59.9, Outcome.NO_ANSWER), (60.0, Outcome.STALLED)]
)
def test_requests_that_wait_without_a_token_for_the_whole_time_are_a_stall(
    monkeypatch: pytest.MonkeyPatch, seconds: float, outcome: Outcome
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
