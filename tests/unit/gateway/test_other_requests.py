"""Requests of others while a node is measured, counted by a real HAProxy."""

from __future__ import annotations

import asyncio
import functools
import json
import urllib.request
from pathlib import Path

import pytest

from b200kit.node.client import client_health
from b200kit.node.client.chat import Endpoint
from b200kit.node.client.serving_config import load
from b200kit.node.latency import gateway_counters
from b200kit.node.latency.smoke import SmokeTest
from b200kit.node.lib.readings import unmeasured
from b200kit.node.serving.gateway import haproxy
from b200kit.node.state.view import Unmeasured
from tests.messages import assert_message
from tests.unit.gateway.proxy import Proxy, running, until
from tests.unit.node.client.server_thread import running as standin
from tests.unit.node.latency.test_smoke import config


def ask(proxy: Proxy) -> None:
    """A user's request."""
    with urllib.request.urlopen(f"{proxy.url}/v1/models", timeout=60) as answer:
        answer.read()


@pytest.mark.process
def test_gateway_counts_what_it_passed_on_and_forgets_it_with_a_restart(tmp_path: Path) -> None:
    with standin() as url, running(tmp_path, [int(url.rpartition(":")[2])], secrets={}) as proxy:
        until(lambda: haproxy.servers(proxy.socket)[0].status == "UP")
        before = haproxy.traffic(proxy.socket)
        for _ in range(7):
            ask(proxy)
        after = haproxy.traffic(proxy.socket)
    assert gateway_counters.count(before, after, ours=7) == 0
    assert gateway_counters.count(before, after, ours=4) == 3
    # One that was under way already was served meanwhile, too.
    assert gateway_counters.count((before[0], 2), after, ours=7) == 2
    found = gateway_counters.count(after, before, ours=7)
    assert isinstance(found, Unmeasured)
    assert_message(found.reason)


def test_gateway_that_cannot_be_asked_is_not_taken_for_one_without_users() -> None:
    unknown = unmeasured("no socket")
    assert gateway_counters.count(unknown, (7, 0), 7) == Unmeasured("no socket")
    assert gateway_counters.count((7, 0), unknown, 7) == Unmeasured("no socket")


@pytest.mark.parametrize(
    ("readings", "found"),
    [([(5, 1), (5, 1), (5, 0), (9, 9)], (5, 0)), ([(5, 1)] * 9, (5, 1)), ([(5, 0)], (5, 0))],
    ids=["own answer is closing", "others stay", "nothing under way"],
)
def test_own_last_answer_is_no_request_of_others(
    readings: list[tuple[int, int]], found: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(readings)
    monkeypatch.setattr(haproxy, "traffic", lambda: next(answers))
    assert asyncio.run(gateway_counters.at_rest(within_s=0.1)) == found


@pytest.mark.process
@pytest.mark.parametrize("others", [0, 5])
def test_measurement_knows_its_own_requests_from_those_of_others(
    others: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with standin() as url, running(tmp_path, [int(url.rpartition(":")[2])], secrets={}) as proxy:
        until(lambda: haproxy.servers(proxy.socket)[0].status == "UP")
        monkeypatch.setattr(haproxy, "traffic", functools.partial(haproxy.traffic, proxy.socket))
        path = config(tmp_path, url)
        path.write_text(json.dumps(json.loads(path.read_text()) | {"gateway": proxy.url}))
        smoke = SmokeTest(load(path), 5, "salt", client_health.Watch("other"))
        alone = smoke._load

        async def load_with_others(gateway: Endpoint) -> None:
            users = [asyncio.to_thread(ask, proxy) for _ in range(others)]
            await asyncio.gather(alone(gateway), *users)

        monkeypatch.setattr(smoke, "_load", load_with_others)
        asyncio.run(smoke.run())
    assert smoke.correctness is not None
    assert not smoke.correctness.problems
    assert smoke.others == others
