"""What is kept of the nodes' answers: the last one, and that it came to an end."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from b200kit.operations import standing_feed
from b200kit.operations.standing_feed import Feed, NotFollowed, aged, answered
from b200kit.report.content.now.node import NodeAnswer

NEW = NodeAnswer(since=100.0)


def test_an_answer_replaces_what_was_known_and_a_failure_keeps_when_it_was_read() -> None:
    read = answered(NEW, {"node": "n1", "standing": {"schema": "x"}}, 110.0)
    assert (read.standing, read.read_at, read.why) == ({"schema": "x"}, 110.0, "")
    lost = answered(read, {"node": "n1", "why": "no answer in 20 s"}, 120.0)
    assert (lost.standing, lost.read_at, lost.why) == ({"schema": "x"}, 110.0, "no answer in 20 s")
    again = answered(lost, {"node": "n1", "standing": {}}, 130.0)
    assert (again.read_at, again.why) == (130.0, "")


def test_a_failure_without_a_reason_is_a_failure() -> None:
    assert answered(NEW, {"node": "n1", "why": ""}, 110.0).why


def test_a_node_that_falls_silent_is_not_read_any_more() -> None:
    read = answered(NEW, {"node": "n1", "standing": {}}, 110.0)
    assert aged(read, 140.0, 30.0) is read
    assert aged(read, 140.1, 30.0).why
    assert aged(NEW, 900.0, 30.0) is NEW


@pytest.mark.parametrize("line", ['{"nodes": ', "{}", "[1]", "[" * 100_000], ids=range(4))
def test_line_that_is_none_does_not_end_the_reader(tmp_path: Path, line: str) -> None:
    feed = Feed(tmp_path / "site.py", 1)
    feed._words = [sys.executable, "-c", f"print({line!r})"]
    with feed:
        feed.first(60)
        with pytest.raises(NotFollowed):
            feed.known(0.0)


def test_it_is_left_also_where_an_interrupt_has_kept_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing_feed, "_LAST_WORDS_S", 0.1)
    feed = Feed(tmp_path / "site.py", 1)
    feed._words = [sys.executable, "-c", "print('{}')"]
    left = threading.Event()

    def use() -> None:
        with feed:
            feed._changed.acquire()
        left.set()

    threading.Thread(target=use, daemon=True).start()
    assert left.wait(60)
