"""What a node restarts by itself: what the inventory allows, for which faults, how often."""

from __future__ import annotations

from b200kit.node.state import mend
from b200kit.node.state.mend import MendDue, MendRules, MendTries
from b200kit.node.state.verdict import Action, Finding, Status
from b200kit.node.state.watch import NodeFault
from tests.subtests import in_subtests

ON = MendRules(("restart-services",), mend_most=2, mend_window_s=100.0)
MANAGER = "nvidia-fabricmanager.service"


def fault(
    part: str = MANAGER,
    action: Action = Action.RESTART_SERVICE,
    check: str = "fabric.units",
    confirmed: bool = True,
    replicas: tuple[int, ...] = (0, 1),
) -> NodeFault:
    """A fault of a service."""
    finding = Finding(f"{part} died", Status.FAIL, part=part, action=action, check=check)
    return NodeFault(finding, replicas, "", confirmed=confirmed)


@in_subtests(
    ("known", "rules", "units"),
    [
        (fault(), ON, [MANAGER]),
        (fault(part=mend.SERVICES[1]), ON, [mend.SERVICES[1]]),
        (fault(), MendRules(), []),
        (fault(confirmed=False), ON, []),
        (fault(action=Action.RESET_GPU), ON, []),
        (fault(part="haproxy.service"), ON, []),
        (fault(part="baseboard"), ON, []),
        (fault(check="mode.persistence"), ON, []),
        (fault(replicas=()), ON, []),
    ],
)
def test_only_what_is_allowed_and_took_replicas_out(
    known: NodeFault, rules: MendRules, units: list[str]
) -> None:
    assert [one.unit for one in mend.due([known], ("fabric",), rules)] == units


def test_a_service_that_several_faults_name_is_due_once() -> None:
    both = [fault(), fault(check="fabric.manager")]
    assert mend.due(both, ("fabric",), ON) == [MendDue(MANAGER, f"{MANAGER} died", (0, 1))]


@in_subtests(
    ("times", "now", "looked", "may"),
    [
        ((), 50.0, 0.0, True),
        ((10.0,), 50.0, 49.0, False),
        ((10.0,), 99.0, 71.0, True),
        ((10.0, 30.0), 105.0, 104.0, False),
        ((10.0, 80.0), 150.0, 145.0, True),
    ],
)
def test_the_breaker_and_the_time_a_service_gets(
    times: tuple[float, ...], now: float, looked: float, may: bool
) -> None:
    assert (mend.refusal(MendTries("b", times), ON, now, looked) is None) is may


def test_tries_are_counted_within_a_boot_and_a_window() -> None:
    tries = mend.tried(MendTries("b", (10.0, 80.0)), ON, 120.0)
    assert tries.times == (80.0, 120.0)
