"""Schedules and prompts: seeded, of the rate asked for, distinct."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from b200kit.node.client.arrivals import Arrival, closed_loop, constant, open_loop, poisson
from tests.messages import assert_message


def test_the_same_seed_gives_the_same_arrivals_and_another_seed_others() -> None:
    assert poisson(4.0, 40, 7) == poisson(4.0, 40, 7)
    assert poisson(4.0, 40, 7) != poisson(4.0, 40, 8)


def test_the_mean_rate_is_the_one_asked_for() -> None:
    offsets = poisson(4.0, 40, 3)
    assert offsets[-1] == pytest.approx(10.0)
    assert offsets == sorted(offsets)
    assert len(offsets) == 40
    assert poisson(4.0, 0, 3) == []


def test_gaps_are_exponential_not_constant() -> None:
    gaps = [b - a for a, b in itertools.pairwise(poisson(10.0, 4000, 1))]
    average = sum(gaps) / len(gaps)
    spread = (sum((gap - average) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert spread / average == pytest.approx(1.0, abs=0.1)


def test_a_rate_of_nought_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        poisson(0, 3, 1)
    with pytest.raises(ValueError, match="above 0"):
        constant(0, 3)
    with pytest.raises(ValueError, match="above 0"):
        asyncio.run(Arrival(None).run(1, 0, nobody))


async def nobody(number: int, due: float) -> int:
    """Send nothing."""
    return number


def test_constant_arrivals_have_equal_gaps_and_end_as_poissons_do() -> None:
    assert constant(4.0, 3) == [0.25, 0.5, 0.75]
    assert constant(4.0, 40)[-1] == pytest.approx(poisson(4.0, 40, 1)[-1])


@pytest.mark.parametrize(
    "arrival", [Arrival(4.0), Arrival(0.5, even=True), Arrival(4.0, concurrency=2)]
)
def test_an_arrival_says_what_it_is_and_sends_everything(arrival: Arrival) -> None:
    assert_message(str(arrival))
    quick = Arrival(10_000.0, arrival.even, arrival.concurrency)
    assert asyncio.run(quick.run(5, 1, nobody)) == [0, 1, 2, 3, 4]


def test_nothing_caps_an_open_loop() -> None:
    """2000 requests of which none is answered before all are sent."""

    async def scenario() -> int:
        everyone, under_way = asyncio.Event(), 0

        async def send(number: int, due: float) -> int:
            nonlocal under_way
            under_way += 1
            if under_way == 2000:
                everyone.set()
            await everyone.wait()
            return number

        return len(await Arrival(100_000.0).run(2000, 1, send))

    assert asyncio.run(scenario()) == 2000


def test_the_open_loop_does_not_wait_for_answers() -> None:
    async def scenario() -> list[int]:
        everyone = asyncio.Event()
        under_way = 0

        async def send(number: int, due: float) -> int:
            nonlocal under_way
            under_way += 1
            if under_way == 5:
                everyone.set()
            await everyone.wait()
            return number

        return await open_loop([0.0] * 5, send)

    assert asyncio.run(scenario()) == [0, 1, 2, 3, 4]


def test_the_closed_loop_keeps_its_concurrency() -> None:
    async def scenario() -> tuple[list[int], int]:
        now = most = 0

        async def send(number: int, due: float) -> int:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1
            return number

        return await closed_loop(3, 10, send), most

    assert asyncio.run(scenario()) == (list(range(10)), 3)


def test_one_failure_leaves_no_request_running() -> None:
    async def scenario() -> int:
        async def send(number: int, due: float) -> int:
            if number == 0:
                raise RuntimeError("broken")
            await asyncio.sleep(3600)
            return number

        with pytest.raises(RuntimeError, match="broken"):
            await open_loop([0.0, 0.0, 0.0], send)
        await asyncio.sleep(0)
        return len(asyncio.all_tasks())

    assert asyncio.run(scenario()) == 1
