"""What is sent, against the stand-in: lengths after counting, and the cache."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from b200kit.node.client import client_health, engine_metrics
from b200kit.node.client.arrivals import Arrival
from b200kit.node.client.chat import ChatAnswer, ChatRequest, Endpoint, chat
from b200kit.node.client.formulas import Run
from b200kit.node.client.prompts import PromptSource, Scale, SiteFile, Texts, WordList
from b200kit.node.latency import load_run
from b200kit.node.latency.load_run import Volley
from tests.lab.standin.knobs import Knobs
from tests.unit.node.client.server_thread import MODEL, fast, running

QUICK = Arrival(10_000.0)
ONE_A_WORD = Scale(1.0, 13.0)
LINES = SiteFile(tuple(f"{number} of the users asked this " * 40 for number in range(30)))


def volley(prompts: PromptSource, tokens: int = 200, scale: Scale = ONE_A_WORD) -> Volley:
    """Prompts of so many tokens, as the stand-in counts them, and answers of four."""
    return Volley(MODEL, tokens, 4, QUICK, 5, "salt", scale, prompts=prompts)


async def sent(given: Volley, url: str, requests: int) -> tuple[Run, object]:
    """The requests, and the hit rate of the server's prefix cache meanwhile."""
    before = await engine_metrics.scrape(Endpoint(url))
    run = await given.fire(Endpoint(url), "gateway", requests, client_health.Watch("other"))
    after = await engine_metrics.scrape(Endpoint(url))
    delta = engine_metrics.Delta.over([before], [after])
    return run, delta.figures().prefix_hit_rate


def fire(given: Volley, requests: int, knobs: Knobs | None = None) -> tuple[Run, object]:
    """The same at a server of its own."""
    with running(knobs) as url:
        return asyncio.run(sent(given, url, requests))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ChatRequest]:
    """Every request that goes out, in order."""
    found: list[ChatRequest] = []

    async def seen(to: Endpoint, request: ChatRequest, *more: Any) -> ChatAnswer:
        found.append(request)
        return await chat(to, request, *more)

    monkeypatch.setattr(load_run, "chat", seen)
    return found


@pytest.mark.parametrize("source", [Texts(), LINES], ids=["texts", "site"])
def test_lengths_are_those_asked_for_once_the_server_has_counted(source: Any) -> None:
    unknown = volley(source, scale=Scale(1.7, 13.0))
    with running() as url:
        counted = asyncio.run(unknown.scaled(Endpoint(url)))
        run, _ = asyncio.run(sent(counted, url, 6))
    assert counted.scale == Scale(1.0, 13.0)
    assert [record.prompt_tokens for record in run.records] == [200] * 6


def test_scale_of_the_correctness_check_stays_where_nothing_is_counted() -> None:
    given = volley(Texts(), scale=Scale(1.7, 9.0))
    with running(fast("500")) as url:
        assert asyncio.run(given.scaled(Endpoint(url))) == given


def test_random_words_are_counted_by_the_correctness_check(asked: list[ChatRequest]) -> None:
    given = volley(WordList())
    with running() as url:
        assert asyncio.run(given.scaled(Endpoint(url))) == given
    assert asked == []


def test_texts_hit_no_cache_and_conditions_say_what_was_sent() -> None:
    assert fire(volley(Texts()), 8)[1] == 0.0
    assert volley(Texts()).load().prompts == f"{Texts().name}, distinct by seed"


def test_answer_may_take_as_long_as_it_likes_while_tokens_come() -> None:
    assert load_run.DEADLINES.total == math.inf
    assert load_run.DEADLINES.idle < 60
