"""Delivery: each sink has each event, whatever another one does, and in the end none waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.events import deliver
from b200kit.node.events.deliver import Delivery, Turns
from b200kit.node.events.spool import Spool
from b200kit.node.state.event import Event
from tests.unit.node.events.test_spool import TOLD, spool


@dataclass
class Listener:
    """A sink that takes what it is told, but for the events that it *refuses* so often."""

    name: str = "command"
    heard: list[str] = field(default_factory=list)
    refuses: dict[str, int] = field(default_factory=dict)
    waits_for: asyncio.Event | None = None

    async def tell(self, event: Mapping[str, Any]) -> str | None:
        if self.waits_for:
            await self.waits_for.wait()
        about = str(event["summary"])
        if self.refuses.get(about, 0) > 0:
            self.refuses[about] -= 1
            return "no"
        self.heard.append(about)
        return None


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver, "_EVERY_S", 0.0)
    monkeypatch.setattr(deliver, "FIRST_S", 0.0)


def filled(folder: Path, *abouts: str) -> Spool:
    """A spool with events."""
    here = spool(folder, kept=50)
    for about in abouts:
        here.put(Event("fault.over", about))
    return here


def test_every_sink_hears_of_every_event_in_order_and_then_none_waits(tmp_path: Path) -> None:
    here, sinks = filled(tmp_path, "a", "b", "c"), [Listener(), Listener("webhook")]
    asyncio.run(deliver.deliver(here, sinks))
    assert [sink.heard for sink in sinks] == [["a", "b", "c"]] * 2
    assert here.names() == []


def test_one_that_fails_is_told_again_and_holds_up_no_other(tmp_path: Path) -> None:
    here, sink = filled(tmp_path, "a", "b", "c"), Listener(refuses={"a": 3})
    asyncio.run(deliver.deliver(here, [sink]))
    assert sink.heard == ["b", "c", "a"]


def test_a_sink_that_hangs_does_not_hold_the_other(tmp_path: Path) -> None:
    async def beside() -> None:
        gone_on = asyncio.Event()
        here, well = filled(tmp_path, "a", "b"), Listener("webhook")
        hung = Listener(waits_for=gone_on)
        job = asyncio.ensure_future(deliver.deliver(here, [hung, well]))
        while well.heard != ["a", "b"]:
            await asyncio.sleep(0)
        here.put(Event("fault.over", "c"))
        while well.heard != ["a", "b", "c"]:
            await asyncio.sleep(0)
        assert (hung.heard, len(here.names())) == ([], 3)
        gone_on.set()
        await job
        assert (hung.heard, here.names()) == (["a", "b", "c"], [])

    asyncio.run(beside())


def test_a_sink_that_has_all_is_told_of_what_comes_while_another_one_rests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "_EVERY_S", 0.05)

    async def one_after_the_other() -> None:
        here, gone_on = filled(tmp_path, "a"), asyncio.Event()
        first, last = Listener(), Listener("webhook", waits_for=gone_on)
        job = asyncio.ensure_future(deliver.deliver(here, [first, last]))
        while first.heard != ["a"]:
            await asyncio.sleep(0)
        gone_on.set()
        while here.names():
            await asyncio.sleep(0)
        here.put(Event("fault.over", "b"))
        await asyncio.wait_for(job, 60)
        # As systemd does where one was over before.
        await deliver.deliver(here, [first, last])
        assert (first.heard, last.heard) == (["a", "b"], ["a", "b"])

    asyncio.run(one_after_the_other())


def test_what_ends_one_sink_ends_the_delivery(tmp_path: Path) -> None:
    class Broken(Listener):
        async def tell(self, event: Mapping[str, Any]) -> str | None:
            raise RuntimeError("a fault of ours")

    with pytest.raises(RuntimeError):
        asyncio.run(deliver.deliver(filled(tmp_path, "a"), [Broken(), Listener("webhook")]))


def test_a_delivery_that_is_killed_tells_nobody_twice_what_was_written_down(tmp_path: Path) -> None:
    here, well = filled(tmp_path, "a"), Listener("webhook")
    first = Delivery(here, [Listener(), well])
    first.took(well, here.names()[0])
    later = [Listener(), Listener("webhook")]
    asyncio.run(deliver.deliver(here, later))
    assert [sink.heard for sink in later] == [["a"], []]


def test_what_was_told_is_forgotten_with_the_event(tmp_path: Path) -> None:
    here = filled(tmp_path, "a")
    asyncio.run(deliver.deliver(here, [Listener()]))
    assert json.loads((here.directory / deliver.DELIVERED).read_text()) == {"command": []}


def test_an_event_that_nobody_takes_for_a_day_is_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = filled(tmp_path, "a")
    monkeypatch.setattr(deliver, "OLDEST_S", -1.0)
    asyncio.run(deliver.deliver(here, [Listener(refuses={"a": 99})]))
    assert (here.names(), here.dropped()) == ([], 1)


def test_what_is_no_event_is_taken_away(tmp_path: Path) -> None:
    here = filled(tmp_path, "a")
    (here.directory / here.names()[0]).write_text("{")
    asyncio.run(deliver.deliver(here, [Listener()]))
    assert (here.names(), here.dropped()) == ([], 1)


def test_a_sink_that_fails_is_left_alone_longer_each_time_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deliver, "FIRST_S", 1.0)
    now = [0.0]
    turns = Turns(clock=lambda: now[0])
    assert [turns.failed("a") for _ in range(11)][::5] == [1.0, 32.0, deliver.MOST_S]
    assert turns.next(["a"]) is None
    now[0] = deliver.MOST_S
    assert turns.next(["a", "b"]) == "b"
    turns.took()
    assert turns.failed("a") == 1.0


def test_the_command_ends_when_all_is_told_and_says_when_it_cannot_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = spool(tmp_path, command=["/bin/sh", "-c", f"cat >> {tmp_path}/heard"])
    here.put(TOLD)
    monkeypatch.setattr(deliver, "Spool", lambda: here)
    assert deliver.main([]) == 0
    assert json.loads((tmp_path / "heard").read_text())["summary"] == TOLD.summary
    here.config.write_text("{")
    assert deliver.main([]) == 2
    assert capsys.readouterr().err.count("\n") == 1
