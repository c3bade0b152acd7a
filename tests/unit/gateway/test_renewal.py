"""A node that measures itself, before a real HAProxy: it yields to a user, and not to itself."""

from __future__ import annotations

import asyncio
import functools
import json
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from b200kit.node.client import client_health
from b200kit.node.client.chat import Tally
from b200kit.node.client.serving_config import load
from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.lib import hours
from b200kit.node.renewal import attempts, node
from b200kit.node.renewal.attempts import Attempts
from b200kit.node.renewal.node import ThisNode
from b200kit.node.serving.gateway import haproxy
from tests.unit.gateway.proxy import Proxy, running, until
from tests.unit.node.client.server_thread import running as standin
from tests.unit.node.latency.test_smoke import config

pytestmark = pytest.mark.process


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The node's gateway, and its configuration in tmp_path."""
    monkeypatch.setattr(client_health, "claim_realtime", lambda: "other")
    monkeypatch.setattr(attempts, "EVERY_S", 0.05)
    monkeypatch.setattr(attempts, "WATCHED_S", 0.02)
    for name in ("LOCK", "QUARANTINE"):
        monkeypatch.setattr(node, name, tmp_path / name)
    with standin() as url, running(tmp_path, [int(url.rpartition(":")[2])], secrets={}) as found:
        until(lambda: haproxy.servers(found.socket)[0].status == "UP")
        for name in ("traffic", "servers"):
            asked = functools.partial(getattr(haproxy, name), found.socket)
            monkeypatch.setattr(haproxy, name, asked)
        path = config(tmp_path, url)
        path.write_text(json.dumps(json.loads(path.read_text()) | {"gateway": found.url}))
        yield found


def renewed(site: ThisNode, said: list[str]) -> SmokeResult | None:
    """The first measurement that ended by itself."""

    def judge(found: SmokeResult) -> SmokeResult:
        return replace(found, verdict="pass")

    return asyncio.run(Attempts(site, 0.3, judge, said.append).until_measured()).found


def test_it_does_not_yield_to_itself(proxy: Proxy, tmp_path: Path) -> None:
    said: list[str] = []
    site = ThisNode(load(tmp_path / "serving.json"), hours.parsed("00:00-24:00"))
    assert renewed(site, said) is not None
    assert said == []


def test_it_yields_to_a_user(proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    took: list[float] = []
    measure = ThisNode.measure

    async def with_a_user(self: ThisNode, tally: Tally) -> SmokeResult:
        began = time.monotonic()
        asking = asyncio.ensure_future(asyncio.to_thread(ask, proxy)) if not took else None
        try:
            return await measure(self, tally)
        finally:
            took.append(time.monotonic() - began)
            assert asking is None or await asking == 200

    monkeypatch.setattr(ThisNode, "measure", with_a_user)
    site = ThisNode(load(tmp_path / "serving.json"), hours.parsed("00:00-24:00"))
    assert renewed(site, said) is not None
    assert len(said) == 1
    assert "requests of others came" in said[0]
    print(f"ended after {took[0]:.2f} s, then measured in {took[1]:.2f} s")


def ask(proxy: Proxy) -> int:
    """A user's request."""
    with urllib.request.urlopen(f"{proxy.url}/v1/models", timeout=60) as answer:
        return int(answer.status)
