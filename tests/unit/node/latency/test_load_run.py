"""What is sent, against the stand-in: lengths after counting, shared prefixes, conversations."""

from __future__ import annotations

import asyncio
import math
from itertools import pairwise
from typing import Any

import pytest

from b200kit.node.client import client_health, engine_metrics
from b200kit.node.client.arrivals import Arrival
from b200kit.node.client.chat import Answer, ChatRequest, Endpoint, chat
from b200kit.node.client.dataset.dataset import Dataset
from b200kit.node.client.dataset.site_file import SiteFile
from b200kit.node.client.dataset.texts import Texts
from b200kit.node.client.dataset.words import Scale
from b200kit.node.client.formulas import Run
from b200kit.node.latency import load_run
from b200kit.node.latency.load_run import Volley
from tests.lab.standin.knobs import Knobs
from tests.messages import assert_message
from tests.unit.node.client.server_thread import MODEL, fast, running

QUICK = Arrival(10_000.0)
ONE_A_WORD = Scale(1.0, 13.0)
LINES = SiteFile(tuple(f"{number} of the users asked this " * 40 for number in range(30)))


def volley(dataset: Dataset, tokens: int = 200, scale: Scale = ONE_A_WORD) -> Volley:
    """Prompts of so many tokens, as the stand-in counts them, and answers of four."""
    return Volley(MODEL, tokens, 4, QUICK, 5, "salt", scale, dataset=dataset)


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

    async def seen(to: Endpoint, request: ChatRequest, *more: Any) -> Answer:
        found.append(request)
        return await chat(to, request, *more)

    monkeypatch.setattr(load_run, "chat", seen)
    return found


@pytest.mark.parametrize("source", [Texts(), LINES], ids=["texts", "site"])
def test_lengths_are_those_asked_for_once_the_server_has_counted(source: Any) -> None:
    unknown = volley(Dataset(source, shared=0.25), scale=Scale(1.7, 13.0))
    with running() as url:
        counted = asyncio.run(unknown.scaled(Endpoint(url)))
        run, _ = asyncio.run(sent(counted, url, 6))
    assert counted.scale == Scale(1.0, 13.0)
    assert [record.prompt_tokens for record in run.records] == [200] * 6


def test_scale_of_the_correctness_check_stays_where_nothing_is_counted() -> None:
    given = volley(Dataset(Texts()), scale=Scale(1.7, 9.0))
    with running(fast("500")) as url:
        assert asyncio.run(given.scaled(Endpoint(url))) == given


def test_random_words_are_counted_by_the_correctness_check(asked: list[ChatRequest]) -> None:
    given = volley(Dataset())
    with running() as url:
        assert asyncio.run(given.scaled(Endpoint(url))) == given
    assert asked == []


def test_texts_hit_no_cache_and_shared_prefixes_as_much_as_they_share() -> None:
    assert fire(volley(Dataset(Texts())), 8)[1] == 0.0
    # One at a time: what is still being worked through is in no cache.
    in_turn = Volley(
        MODEL, 413, 4, Arrival(concurrency=1), 5, "salt", ONE_A_WORD,
        dataset=Dataset(Texts(), shared=0.5, group=4),
    )  # fmt: skip
    run, hits = fire(in_turn, 8)
    assert not run.errors
    # 200 of 413 tokens and the template's 13 before them, in blocks of 16; 3 of 4 find them.
    assert hits == pytest.approx(0.75 * (213 // 16 * 16) / 413, abs=1e-3)


def test_each_turn_has_all_that_was_said_and_finds_it_in_the_cache(
    asked: list[ChatRequest],
) -> None:
    run, hits = fire(volley(Dataset(Texts(), turns=3)), 7)
    assert len(run.records) == len(asked) == 7
    assert {request.salt for request in asked} == {"salt"}
    assert not run.errors
    conversations: dict[str, list[ChatRequest]] = {}
    for request in asked:
        conversations.setdefault((*request.earlier, request.prompt)[0], []).append(request)
    assert sorted(len(turns) for turns in conversations.values()) == [1, 3, 3]
    for turns in conversations.values():
        for before, after in pairwise(turns):
            *earlier, question, answer = after.earlier
            assert (tuple(earlier), question) == (before.earlier, before.prompt)
            assert len(answer.split()) == 4
    found = sorted(record.prompt_tokens or 0 for record in run.records)
    assert found == [200] * 3 + [200 + 187 + 4] * 2 + [200 + 2 * (187 + 4)] * 2
    assert isinstance(hits, float)
    assert 0.35 < hits < 0.5


def test_turn_is_due_when_the_answer_before_it_is_there() -> None:
    run, _ = fire(volley(Dataset(turns=4)), 4)
    records = run.records
    due = [(one.ended or math.inf) <= two.scheduled <= two.sent for one, two in pairwise(records)]
    assert due == [True] * 3


def test_conversations_begin_at_their_share_of_the_rate() -> None:
    given = Volley(MODEL, 40, 4, Arrival(6.0), 5, "s", dataset=Dataset(turns=3))
    assert given._opening == Arrival(2.0)
    assert_message(given.load().arrival)
    closed = Volley(MODEL, 40, 4, Arrival(concurrency=2), 5, "s", dataset=Dataset(turns=3))
    assert closed._opening.concurrency == 2


def test_after_a_failed_answer_the_rest_of_its_conversation_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.lab.standin.chat._numbers", iter(range(1, 1000)))
    run, _ = fire(volley(Dataset(turns=4)), 4, fast("cut-off", fault_at=2))
    assert len(run.records) == 4
    assert_message(*run.errors)
    assert [record.error is None for record in run.records] == [True, False, False, False]


def test_conditions_say_what_was_sent() -> None:
    found = volley(Dataset(Texts(), shared=0.5, group=4, turns=3)).load()
    assert (found.prefix_share, found.prefix_requests, found.turns) == (0.5, 4, 3)
    assert "50% of each shared by 4" in found.prompts
    # A prefix that is not shared is one request's.
    assert volley(Dataset(Texts(), group=4)).load().prefix_requests == 1


def test_answer_may_take_as_long_as_it_likes_while_tokens_come() -> None:
    assert load_run.DEADLINES.total == math.inf
    assert load_run.DEADLINES.idle < 60
