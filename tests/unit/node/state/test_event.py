"""Events as documents: what happened, to what, and what it asks for."""

from __future__ import annotations

from b200kit.node.lib.boot_clock import Moment
from b200kit.node.state import event
from b200kit.node.state.event import Event, Remediation
from b200kit.node.state.verdict import Action, Finding, Status
from b200kit.node.state.watch import NodeFault

STAMP = 1, "2026-11-25T13:00:00Z", "n01", Moment("b", 7.0)
PENDING = Finding(
    "GPU 6: a row remap is pending",
    Status.FAIL,
    "GPU 6",
    action=Action.RESET_GPU,
    check="remap.pending",
)


def test_a_confirmed_fault_asks_for_its_remediation_and_one_that_is_over_for_none() -> None:
    fault = NodeFault(PENDING, (1,), "2026-11-25T12:59:00Z")
    began = event.of_fault("confirmed", fault)
    assert (began.kind, began.check, began.subject, began.replicas) == (
        *("fault.confirmed", "remap.pending", "GPU 6"),
        (1,),
    )
    assert began.remediation
    assert began.remediation.action == "reset-gpu"
    assert event.of_fault("over", fault).remediation is None


def test_every_kind_that_a_look_writes_is_one_of_the_known() -> None:
    fault = NodeFault(PENDING, (), "")
    assert {event.of_fault(change, fault).kind for change in ("confirmed", "over")} <= {
        *event.KINDS
    }


def test_a_summary_is_bounded_and_its_id_is_in_order() -> None:
    told = Event("replica.out", "x" * 10_000).stamped(*STAMP)
    assert len(told.summary) == 2000
    assert told.id < Event("replica.out", "").stamped(12, *STAMP[1:]).id


def test_a_step_without_a_finding_is_of_the_same_ladder() -> None:
    asked = Remediation.step(Action.RESTART_SERVICE, "vllm@0.service")
    assert asked == Remediation("restart-service", "systemctl restart vllm@0.service")
