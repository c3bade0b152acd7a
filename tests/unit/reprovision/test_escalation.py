"""Which level comes next: never below the request, never the same for ever, manual repair last."""

from __future__ import annotations

from b200kit.inventory.keys.levels import MIN_LEVEL, Level
from b200kit.node.state.verdict import Action, Finding, Status
from b200kit.reprovision.escalation import FOR_EVER, Attempt, Decision, EscalationLimits, choose
from tests.messages import assert_message
from tests.subtests import in_subtests

NOW = 1_800_000_000.0
DAY = 86_400.0
CLIMB: list[Level] = [level for level in Level if level is not Level.REPLACE]
TWICE: dict[Level, int] = dict.fromkeys(CLIMB, 2)
ALL = EscalationLimits(TWICE, DAY)


def finding(action: Action, part: str = "", summary: str = "it is broken") -> Finding:
    return Finding(summary, Status.FAIL, action=action, part=part)


def tried(
    level: Level, times: int = 1, ago: float = 60.0, outcome: str = "did not help"
) -> list[Attempt]:
    return [Attempt(level, NOW - ago - n, outcome, f"{level}{n}") for n in range(times)]


def chosen(
    action: Action, history: list[Attempt] | None = None, limits: EscalationLimits = ALL
) -> Decision:
    return choose([finding(action)], history or [], limits, NOW)


@in_subtests(("action", "level"), MIN_LEVEL.items())
def test_fresh_fault_gets_the_level_it_asks_for(action: Action, level: Level) -> None:
    decision = chosen(action)
    assert decision.level is level
    assert decision.attempt == 1


def test_least_of_many_faults_is_what_the_worst_asks_for() -> None:
    faults = [finding(Action.RESTART_SERVICE), finding(Action.REBOOT, summary="no driver")]
    decision = choose(faults, [], ALL, NOW)
    assert (decision.level, decision.why) == (Level.REBOOT, "no driver")


def test_second_attempt_of_a_level_is_counted() -> None:
    decision = chosen(Action.RESET_GPU, tried(Level.RESET_GPUS))
    assert (decision.level, decision.attempt, decision.of) == (Level.RESET_GPUS, 2, 2)
    assert_message(decision.text)


def test_spent_level_is_passed_over_upwards_and_said() -> None:
    decision = chosen(Action.RESET_GPU, tried(Level.RESET_GPUS, 2))
    assert decision.level is Level.REBOOT
    assert_message(*decision.passed)
    assert "tried 2 of 2" in decision.why


def test_attempt_that_cured_counts_too_when_the_fault_is_back_within_the_window() -> None:
    assert chosen(Action.REBOOT, tried(Level.REBOOT, 2, outcome="cured")).level is Level.POWER_CYCLE


def test_attempts_before_the_window_are_forgiven() -> None:
    assert chosen(Action.REBOOT, tried(Level.REBOOT, 2, ago=2 * DAY)).level is Level.REBOOT


def test_level_that_helps_for_two_days_again_and_again_is_not_tried_for_ever() -> None:
    twice = 2 * FOR_EVER
    often = [
        Attempt(Level.RESET_GPUS, NOW - days * 2 * DAY, "cured") for days in range(1, twice + 1)
    ]
    decision = chosen(Action.RESET_GPU, often)
    assert decision.level is Level.REBOOT
    assert_message(decision.passed[0])


def test_level_the_site_has_not_got_is_passed_over_with_its_reason() -> None:
    limits = EscalationLimits(TWICE, DAY, {Level.POWER_CYCLE: "the inventory names no bmc"})
    decision = chosen(Action.POWER_CYCLE, limits=limits)
    assert (decision.level, decision.missing) == (Level.POWER_CYCLE, "the inventory names no bmc")
    assert_message(*decision.passed, decision.text)


NO_BMC = {Level.POWER_CYCLE: "the inventory names no bmc"}
NEITHER = {**NO_BMC, Level.REIMAGE: "the inventory names no reimage"}


@in_subtests("action", [a for a in MIN_LEVEL if a is not Action.REPLACE])
@in_subtests(
    "limits",
    [EscalationLimits(TWICE, DAY, NO_BMC), EscalationLimits({**TWICE, Level.POWER_CYCLE: 0}, DAY)],
)
def test_disk_is_never_wiped_in_place_of_a_level_that_was_not_tried(
    action: Action, limits: EscalationLimits
) -> None:
    spent = [one for level in CLIMB if level < Level.POWER_CYCLE for one in tried(level, 2)]
    decision = chosen(action, spent, limits)
    assert decision.level is Level.POWER_CYCLE
    assert decision.missing


def test_without_any_higher_level_a_person_acts() -> None:
    decision = chosen(Action.POWER_CYCLE, limits=EscalationLimits(TWICE, DAY, NEITHER))
    assert (decision.level, decision.missing) == (Level.REPLACE, "")


def test_new_image_follows_a_power_cycle_that_was_tried_though_a_lower_level_never_is() -> None:
    limits = EscalationLimits({**TWICE, Level.REBOOT: 0}, DAY)
    assert chosen(Action.REBOOT, tried(Level.POWER_CYCLE, 2), limits).level is Level.REIMAGE


def test_person_may_request_the_new_image_all_the_same() -> None:
    limits = EscalationLimits(TWICE, DAY, NO_BMC)
    decision = choose([finding(Action.POWER_CYCLE)], [], limits, NOW, Level.REIMAGE)
    assert (decision.level, decision.missing) == (Level.REIMAGE, "")


def test_budget_of_zero_is_never() -> None:
    assert chosen(
        Action.REBOOT, limits=EscalationLimits({**TWICE, Level.REBOOT: 0}, DAY)
    ).level is (Level.POWER_CYCLE)


def test_part_to_replace_is_named_and_no_level_is_tried_for_it() -> None:
    faults = [
        finding(Action.REPLACE, "GPU 2, module 8"),
        finding(Action.REPLACE, "GPU 2, module 8"),
        finding(Action.RESTART_SERVICE, "nvlsm"),
    ]
    decision = choose(faults, [], ALL, NOW)
    assert (decision.level, decision.parts) == (Level.REPLACE, ("GPU 2, module 8",))
    assert_message(decision.text)


def test_unit_that_stays_down_is_looked_at_and_not_replaced() -> None:
    decision = choose([finding(Action.REPLACE, "nvidia-fabricmanager.service")], [], ALL, NOW)
    assert_message(decision.text)


def test_every_level_is_climbed_and_hands_are_the_end() -> None:
    history: list[Attempt] = []
    seen: list[Level] = []
    for turn in range(100):
        decision = choose([finding(Action.RESTART_SERVICE, "GPU 3")], history, ALL, NOW)
        seen.append(decision.level)
        if decision.level is Level.REPLACE:
            break
        history.append(Attempt(decision.level, NOW - 1, "did not help", str(turn)))
    assert seen == [level for level in CLIMB for _ in range(2)] + [Level.REPLACE]
    assert decision.parts == ("GPU 3",)
    assert len(decision.passed) == len(CLIMB)


@in_subtests("action", Action)
@in_subtests("spent", Level)
def test_no_history_leads_below_what_is_asked(action: Action, spent: Level) -> None:
    history = [attempt for level in Level if level <= spent for attempt in tried(level, 2)]
    assert chosen(action, history).level >= MIN_LEVEL.get(action, Level.RESTART_SERVICES)


def test_fault_that_asks_for_no_level_gets_the_services_and_then_a_person() -> None:
    assert chosen(Action.MONITOR).level is Level.RESTART_SERVICES
    assert chosen(Action.NONE, tried(Level.RESTART_SERVICES, 2)).level is Level.REPLACE


def test_person_may_ask_for_more_than_the_finding_but_not_for_less() -> None:
    fault = [finding(Action.RESET_GPU)]
    assert choose(fault, [], ALL, NOW, Level.POWER_CYCLE).level is Level.POWER_CYCLE
    assert choose(fault, [], ALL, NOW, Level.RESTART_SERVICES).level is Level.RESET_GPUS
    assert_message(choose([], [], ALL, NOW, Level.REBOOT).why)
