"""Attempts over a virtual clock: when one begins, whom it yields to, and what is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from b200kit.node.client.chat import Tally
from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.renewal import attempts
from b200kit.node.renewal.attempts import Attempts, RenewalOutcome
from b200kit.node.renewal.traffic import GatewayTraffic
from tests.unit import smoke_results

PASSED = smoke_results.result()


@dataclass
class Simulated:
    """A node whose second passes with every look at it. *users*: requests so far, by the second."""

    users: Callable[[int], int] = lambda _: 0
    hindered: Callable[[int], str] = lambda _: ""
    hours_s: int = 100
    takes_s: int = 5
    result: SmokeResult = PASSED
    second: int = 0
    sent: int = 0
    begun: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)

    def now_s(self) -> float:
        return float(self.second)

    def left_s(self) -> float:
        return float(self.hours_s - self.second)

    def hindrance(self) -> str:
        found = self.hindered(self.second)
        self.second += bool(found)
        return found

    def at_gateway(self) -> GatewayTraffic | str:
        return GatewayTraffic(self.users(self.second) + self.sent, 0)

    async def traffic(self) -> GatewayTraffic | str:
        self.second += 1
        return self.at_gateway()

    async def measure(self, tally: Tally) -> SmokeResult:
        self.begun.append(self.second)
        try:
            for _ in range(self.takes_s):
                tally.sent += 1
                self.sent += 1
                self.second += 1
                await asyncio.sleep(0.02)
        finally:
            self.ended.append(self.second)
        return self.result


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No second takes one."""
    monkeypatch.setattr(attempts, "EVERY_S", 0.0)
    monkeypatch.setattr(attempts, "WATCHED_S", 0.002)


def until_measured(site: Simulated, idle_s: float = 10) -> RenewalOutcome:
    """What comes of it."""
    instead: Any = site
    asked = Attempts(instead, idle_s, lambda found: found, lambda _: None)
    return asyncio.run(asked.until_measured())


def test_idle_node_is_measured_after_the_time_asked_for() -> None:
    site = Simulated()
    assert until_measured(site) == RenewalOutcome(PASSED, "")
    assert site.begun == [11]


def test_busy_node_is_never_measured_and_it_is_said_why() -> None:
    site = Simulated(users=lambda second: second // 4)
    found = until_measured(site)
    assert (found.found, site.begun) == (None, [])
    assert "requests came" in found.why


def test_measurement_yields_to_a_request_and_is_tried_again() -> None:
    site = Simulated(users=lambda second: int(second > 13), takes_s=8)
    found = until_measured(site)
    assert found.found == PASSED
    first, second = site.begun
    assert first == 11
    # It was ended, not let to its end.
    assert site.ended[0] < first + 8
    assert second >= site.ended[0] + 10


def test_request_at_its_very_end_is_no_company_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "WATCHED_S", 60.0)
    site = Simulated(users=lambda second: int(second > 15))
    assert until_measured(site).found == PASSED
    assert len(site.begun) == 2


def test_run_that_begins_ends_it() -> None:
    site = Simulated(hindered=lambda second: "a run works on the node" if second > 13 else "")
    site.hours_s = 18
    found = until_measured(site)
    assert (found.found, len(site.begun)) == (None, 1)


def test_hours_end_it() -> None:
    site = Simulated(hours_s=14, takes_s=50)
    found = until_measured(site)
    assert (found.found, found.why) == (None, "the hours for it are over")
    assert site.ended[0] < 30


def test_failed_test_is_a_result_and_an_invalid_one_is_none() -> None:
    failed = replace(PASSED, verdict="fail", reasons=("slow",))
    assert until_measured(Simulated(result=failed)) == RenewalOutcome(failed, "slow")
    none = replace(PASSED, verdict="invalid", reasons=("the client waited",))
    invalid = Simulated(result=none)
    invalid.hours_s = 40
    found = until_measured(invalid)
    assert (found.found, found.why) == (None, "the client waited")
    assert len(invalid.begun) == 2
