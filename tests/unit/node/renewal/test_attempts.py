"""Attempts over a virtual clock: when one begins, whom it yields to, and what is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from b200kit.node.client.chat import Tally
from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.renewal import attempts
from b200kit.node.renewal.attempts import Attempts, RenewalOutcome
from b200kit.node.renewal.node import RenewalState, hindrance
from b200kit.node.renewal.traffic import GatewayTraffic, Quiet, foreign
from b200kit.node.serving.gateway.haproxy import GatewayServer
from b200kit.node.state.serving import ServedReplica
from tests.subtests import in_subtests
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


UP = (GatewayServer("vllm0", "UP", 0), GatewayServer("vllm1", "UP", 0))
SERVES = RenewalState(UP)
REPLICAS = [ServedReplica(n, f"http://127.0.0.1:{n}", f"vllm@{n}.service", ()) for n in (0, 1)]


@in_subtests(
    ("standing", "word"),
    [
        (replace(SERVES, quarantine={"why": "swap"}), "out of service"),
        (replace(SERVES, quarantine={"unmeasured": "denied"}), "out of service"),
        (replace(SERVES, drained={"servers": []}), "drained"),
        (replace(SERVES, lock={"owner": "ops"}), "works on"),
        (replace(SERVES, rolling_restart={"replica": 1}), "rolling restart"),
        (replace(SERVES, servers="no socket"), "no socket"),
        (replace(SERVES, servers=(UP[0], GatewayServer("vllm1", "DRAIN", 0))), "vllm1"),
        (replace(SERVES, servers=(UP[0], GatewayServer("vllm1", "DOWN 1/2", 0))), "vllm1"),
        (replace(SERVES, servers=UP[:1]), "vllm1"),
    ],
)
def test_what_keeps_it_from_measuring(standing: RenewalState, word: str) -> None:
    assert word in hindrance(standing, REPLICAS)


def test_node_that_serves_as_a_whole_may() -> None:
    assert hindrance(SERVES, REPLICAS) == ""
    assert hindrance(SERVES, []) != ""


NOBODY = GatewayTraffic(7, 0)
PROBE = GatewayTraffic(7, 0, 1)


@in_subtests(
    ("readings", "quiet_s"),
    [
        ([NOBODY], 0),
        ([NOBODY] * 5, 4),
        ([NOBODY, GatewayTraffic(7, 1), NOBODY, NOBODY], 1),
        # It came and went between two readings.
        ([NOBODY, NOBODY, GatewayTraffic(8, 0), GatewayTraffic(8, 0)], 0),
        # The watchdog asks each replica for a token now and then.
        ([NOBODY, PROBE, NOBODY, PROBE, NOBODY], 4),
        # A stream of the gateway's process before a reload, or a load past it.
        ([NOBODY, PROBE, PROBE, NOBODY], 0),
        ([NOBODY, NOBODY, "no socket", NOBODY], 0),
    ],
)
def test_for_how_long_nobody_asked(
    readings: Sequence[GatewayTraffic | str], quiet_s: float
) -> None:
    quiet = Quiet()
    for at, seen in enumerate(readings):
        quiet = quiet.after(float(at), seen)
    assert quiet.for_s(len(readings) - 1) == quiet_s


def test_what_ended_it_is_said() -> None:
    assert "no socket" in Quiet().after(0.0, "no socket").why
    assert "3" in Quiet().after(0.0, GatewayTraffic(7, 3)).why


@in_subtests(
    ("now", "sent", "yields"),
    [
        (GatewayTraffic(7, 0), 0, False),
        (GatewayTraffic(10, 3), 3, False),
        # On its way to the gateway.
        (GatewayTraffic(10, 3), 5, False),
        (GatewayTraffic(11, 1), 3, True),
        # It has ended already.
        (GatewayTraffic(11, 0), 3, True),
        (GatewayTraffic(2, 0), 3, True),
    ],
)
def test_whom_it_yields_to(now: GatewayTraffic, sent: int, yields: bool) -> None:
    assert bool(foreign(NOBODY, now, sent)) == yields
