"""The tolerant view: a value, or why there is none."""

from __future__ import annotations

from b200kit.node.checks.nvlink import health_mask
from b200kit.node.state.view import Missing, StateView, Unmeasured, View
from tests.messages import assert_message
from tests.subtests import in_subtests


def reason(view: View, *keys: str | int) -> str:
    """The reason of a reading that must not be there."""
    reading = view.number(*keys)
    assert isinstance(reading, Unmeasured)
    return reading.reason


def test_the_first_cause_is_what_is_reported() -> None:
    view = View({"gpus": {"unmeasured": "Driver Not Loaded (9)"}})
    assert reason(view, "gpus", 0, "fabric", "state") == "Driver Not Loaded (9)"


@in_subtests("document", [{}, {"a": True}, {"a": "1"}, {"a": None}, {"a": {"unmeasured": 3}}, []])
def test_what_is_odd_is_unmeasured_with_the_place(document: object) -> None:
    assert_message(reason(View(document), "a"))


def test_missing_is_told_apart_from_null() -> None:
    view = View({"a": None})
    assert view.is_null("a")
    assert not view.is_null("b")
    assert isinstance(view.at("b").raw(), Missing)


def test_unmeasured_is_false_so_that_or_gives_a_default() -> None:
    assert (View({}).text("a") or "default") == "default"


def test_gpu_is_found_by_its_address_in_any_case() -> None:
    state = StateView({"gpus": [{"index": 4, "pci_address": "0000:8f:00.0"}]})
    gpu = state.gpu_at("0000:8F:00.0")
    assert gpu is not None
    assert gpu.subject == "GPU 4"


def test_mask_of_false_fields_has_no_faults() -> None:
    assert health_mask.faults(0x80) == health_mask.faults(0xAA) == health_mask.faults(0) == []
    assert set(health_mask.decode(0xAA).values()) == {"false", "not supported"}


@in_subtests("number", range(2, 16))
def test_every_bad_configuration_is_a_fault(number: int) -> None:
    assert len(health_mask.faults(number << 8)) == 1
