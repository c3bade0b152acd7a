"""A day of looks at a healthy node under changing load, time compressed: nobody is taken out.

The readings change as those of a node that serves do: power, temperature, clocks and the reasons
for them, ordinary Xids of applications; some looks cannot see, and now and then a single one sees a
link down that the next does not (NVSentinel #1701).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from b200kit.inventory.keys.parts import TAKES_OUT
from b200kit.node.checks.judge import judge
from b200kit.node.state import watch
from b200kit.node.state.verdict import Status, Verdict
from b200kit.node.state.watch import HealthRules, NodeFault
from tests.unit import corpus
from tests.unit.states import State, expectation, healthy

DAY = 24 * 3600 // 10
"""Looks of a day, one every ten seconds."""
IDLE, NONE, POWER_CAP = 1, 0, 4
RULES = HealthRules()
KINDS = 20


def busy(chance: random.Random) -> State:
    """The healthy node at some moment of its day."""
    state = healthy()
    for gpu in state["gpus"]:
        load = chance.random()
        gpu["power_usage_mw"] = int(150_000 + load * 849_000)
        gpu["temperature_c"] = gpu["memory_temperature_c"] = int(38 + load * 40)
        gpu["temperature_margin_c"] = 88 - gpu["temperature_c"]
        gpu["sm_clock_mhz"] = int(1965 - load * 300)
        gpu["clocks_event_reasons"] = POWER_CAP if load > 0.9 else NONE if load > 0.1 else IDLE
    if chance.random() < 0.1:
        address = state["gpus"][2]["pci_address"]
        text = "pid=4242, name=python3, Graphics Exception"
        state["xids"] = [{"pci_address": address, "code": 13, "text": text, "at": None}]
    return state


def unread(state: State) -> State:
    """The same where NVML did not answer in time."""
    state["gpus"] = {"unmeasured": "NVML did not answer within 20 s"}
    return state


@pytest.fixture(scope="module")
def verdicts() -> Callable[[random.Random], Verdict]:
    """A verdict over a node that is healthy in some way, 2 of 1,000 unread."""
    chance, asked = random.Random(1), expectation()
    kinds = [judge(asked, busy(chance)) for _ in range(KINDS)]
    blind = judge(asked, unread(busy(chance)))
    return lambda chance: blind if chance.random() < 0.002 else chance.choice(kinds)


def confirmed(looks: Iterator[Verdict]) -> list[tuple[int, str]]:
    """Each fault that counted, with the number of the look."""
    known, found = tuple[NodeFault, ...](), []
    for number, verdict in enumerate(looks):
        before = known
        known = watch.looked(known, verdict, lambda _: (0,), RULES, str(number))
        found += [
            (number, fault.finding.check)
            for change, fault in watch.changes(before, known)
            if change == "confirmed"
        ]
    return found


def broken() -> Verdict:
    """What a look sees where a GPU has no NVLink."""
    return judge(
        expectation(), corpus.named("a GPU is off NVLink and only its links show it").state()
    )


def test_a_healthy_day_with_blind_looks_and_single_glitches_raises_no_alarm(
    verdicts: Callable[[random.Random], Verdict],
) -> None:
    chance, glitch = random.Random(2), broken()
    # One glitch an hour, never two looks in a row.
    at = {hour * 360 + chance.randrange(2, 358) for hour in range(24)}
    day = (glitch if number in at else verdicts(chance) for number in range(DAY))
    assert confirmed(day) == []


def test_the_same_day_with_a_fault_from_noon_on_raises_it_at_the_second_look(
    verdicts: Callable[[random.Random], Verdict],
) -> None:
    chance, fault = random.Random(3), broken()
    day = (fault if number >= DAY // 2 else verdicts(chance) for number in range(DAY))
    found = confirmed(day)
    assert {number for number, _ in found} == {DAY // 2 + 1}
    assert {check.partition(".")[0] for _, check in found} & set(TAKES_OUT)


def test_every_kind_of_a_healthy_moment_is_fit(
    verdicts: Callable[[random.Random], Verdict],
) -> None:
    chance = random.Random(4)
    seen = {finding.check for _ in range(KINDS) for finding in verdicts(chance).findings
            if finding.status is Status.FAIL}  # fmt: skip
    assert seen == set()
