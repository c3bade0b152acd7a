"""Events as documents: what happened, to what, and what it asks for."""

from __future__ import annotations

from b200kit.node.state import event
from b200kit.node.state.event import Event, Remediation, Stamp
from b200kit.node.state.verdict import Action, Finding, Status
from b200kit.node.state.watch import Fault

STAMP = Stamp("n01-b-1", "2026-11-25T13:00:00Z", "n01", "b")
PENDING = Finding(
    "GPU 6: a row remap is pending",
    Status.FAIL,
    "GPU 6",
    action=Action.RESET_GPU,
    check="remap.pending",
)


def test_a_confirmed_fault_asks_for_its_remediation_and_one_that_is_over_for_none() -> None:
    fault = Fault(PENDING, (1,), "2026-11-25T12:59:00Z")
    began = event.of_fault("confirmed", fault).document(STAMP)
    assert (began["kind"], began["check"], began["subject"], began["replicas"]) == (
        *("fault.confirmed", "remap.pending", "GPU 6"),
        [1],
    )
    assert began["remediation"]["action"] == "reset-gpu"
    assert event.of_fault("over", fault).document(STAMP)["remediation"] is None


def test_every_kind_that_a_look_writes_is_one_of_the_known() -> None:
    fault = Fault(PENDING, (), "")
    assert {event.of_fault(change, fault).kind for change in ("confirmed", "over")} <= {
        *event.KINDS
    }


def test_a_summary_is_bounded_and_a_document_knows_its_schema() -> None:
    document = Event("replica.out", "x" * 10_000).document(STAMP)
    assert len(document["summary"]) == 2000
    assert event.is_event(document)
    assert not event.is_event({**document, "schema": "b200kit/event/2"})
    assert not event.is_event([])


def test_a_step_without_a_finding_is_of_the_same_ladder() -> None:
    asked = Remediation.step(Action.RESTART_SERVICE, "vllm@0.service")
    assert asked == Remediation("restart-service", "restart the service: vllm@0.service")
