"""The client's own health."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path

import pytest

from b200kit.node.client import client_health


def test_run_delay_is_the_second_field_in_nanoseconds() -> None:
    assert client_health.run_delay_ms("123456789 2500000 42\n") == 2.5
    assert client_health.run_delay_ms("") is None
    assert client_health.run_delay_ms("1 x 2") is None


def test_no_schedstat_is_none(tmp_path: Path) -> None:
    assert client_health.read_run_delay_ms(tmp_path / "none") is None


def test_watching_adds_up_over_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([10.0, 14.0, 100.0, 101.5])
    monkeypatch.setattr(client_health, "read_run_delay_ms", lambda: next(readings))
    watch = client_health.Watch("other")

    async def scenario() -> None:
        async with watch.running():
            await asyncio.sleep(0)
        async with watch.running():
            await asyncio.sleep(0.02)

    asyncio.run(scenario())
    health = watch.health()
    assert health.run_delay_ms == pytest.approx(5.5)
    assert health.wall_ms > 0
    assert len(health.loop_lag_ms) >= 1
    assert gc.isenabled()


def test_an_unreadable_run_delay_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_health, "read_run_delay_ms", lambda: None)
    watch = client_health.Watch("rr")

    async def scenario() -> None:
        async with watch.running():
            pass

    asyncio.run(scenario())
    assert watch.health().run_delay_ms is None


def test_realtime_refused_is_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: 0)
    assert client_health.claim_realtime() == "other"


def test_realtime_granted_is_rr(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(os, "sched_setscheduler", lambda *args: seen.append(args))
    flags = os.SCHED_RR | os.SCHED_RESET_ON_FORK
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: flags)
    assert client_health.claim_realtime() == "rr"
    assert seen[0][1] == flags  # type: ignore[index]


def test_a_system_without_these_calls_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SCHED_RR", "sched_setaffinity"):
        monkeypatch.delattr(os, name)
    assert client_health.claim_realtime() == "other"
    assert client_health.pin(None) == "any"
    with pytest.raises(ValueError, match="cannot restrict"):
        client_health.pin("0")


def test_pinning_nothing_tells_what_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 1})
    assert client_health.pin(None) == "1,3"


def test_pinning_to_a_cpu_that_is_not_there_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    with pytest.raises(ValueError, match=r"client_cpus '900': Invalid argument"):
        client_health.pin("900")
