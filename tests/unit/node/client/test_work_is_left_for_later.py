"""While pieces still come the client stamps and keeps them; it decodes none before the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from b200kit.node.client import http
from b200kit.node.client.chat import ChatRequest, Endpoint, chat
from b200kit.node.client.sse import SseSplitter
from b200kit.node.lib import documents
from tests.unit.node.client.scores import even, playing


def test_nothing_is_decoded_before_the_answer_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    received, parse, feed = http._Collector.data_received, documents.parse, SseSplitter.feed

    def stamped(self: http._Collector, data: bytes) -> None:
        order.append("piece")
        received(self, data)

    def decoded(*raw: Any) -> Any:
        order.append("decode")
        return parse(*raw)

    def split(self: Any, data: bytes) -> Any:
        order.append("split")
        return feed(self, data)

    monkeypatch.setattr(http._Collector, "data_received", stamped)
    monkeypatch.setattr(SseSplitter, "feed", split)
    score = even(0.02, 0.02, 6)
    with playing() as url:
        request = ChatRequest("m", "p", 6, extra={"score": {"name": "one", "steps": score}})
        monkeypatch.setattr(documents, "parse", decoded)
        answer = asyncio.run(chat(Endpoint(url), request))
        assert set(order) == {"piece"}
        record = answer.record()
    assert record.error is None
    assert {"split", "decode"} <= set(order)
    last = len(order) - order[::-1].index("piece")
    assert "decode" not in order[:last]
