"""The view: a value, or an exception that says what could not be read, and why."""

from __future__ import annotations

import pytest

from b200kit.node.checks.nvlink import fabric
from b200kit.node.state.expectation import Expectation, Unexpected
from b200kit.node.state.view import StateView, Unmeasured, Unread, View
from tests.messages import assert_message
from tests.subtests import in_subtests

ODD = [{}, {"a": True}, {"a": "1"}, {"a": None}, {"a": {"unmeasured": 3}}, []]


def test_the_first_cause_is_what_is_reported() -> None:
    state = StateView({"gpus": [{"fabric": {"unmeasured": "Driver Not Loaded (9)"}}]})
    for view in (
        state.at("gpus", 0, "fabric", "state"),
        state.at("gpus", 0).at("fabric").at("state"),
        state.gpus[0].at("fabric", "state"),
    ):
        with pytest.raises(Unread) as raised:
            view.number()
        assert raised.value.what == "gpus[0].fabric.state"
        assert raised.value.reason == "Driver Not Loaded (9)"


@in_subtests("document", ODD)
def test_what_is_odd_is_raised_with_the_place(document: object) -> None:
    with pytest.raises(Unread) as raised:
        View(document).number("a")
    assert raised.value.what == "a"
    assert_message(raised.value.reason)


@in_subtests("document", ODD)
def test_what_is_known_is_none_where_nothing_can_be_read(document: object) -> None:
    assert View(document).known(int, "a") is None
    assert View(document).known_items("a") == []


def test_an_expectation_raises_its_own_below_its_entries_too() -> None:
    expect = Expectation({"waivers": [{"owner": 7}]})
    with pytest.raises(Unexpected) as raised:
        expect.items("waivers")[0].at("owner").text()
    assert raised.value.what == "waivers[0].owner"


def test_missing_is_told_apart_from_null() -> None:
    view = View({"a": None})
    assert (view.is_null("a"), view.is_missing("a")) == (True, False)
    assert (view.is_null("b"), view.is_missing("b")) == (False, True)
    assert view.raw("a") is None


def test_what_is_shown_says_why_and_is_false() -> None:
    shown = View({"a": {"unmeasured": "why"}}).reading("a", "b")
    assert shown == Unmeasured("why")
    assert (shown or "default") == "default"


def test_gpu_is_found_by_its_address_in_any_case() -> None:
    state = StateView({"gpus": [{"index": 4, "pci_address": "0000:8f:00.0"}]})
    gpu = state.gpu_at("0000:8F:00.0")
    assert gpu is not None
    assert gpu.subject == "GPU 4"


def test_mask_of_good_fields_has_no_faults() -> None:
    good = (0, 0x80, 0xAA, 0x51AA)
    assert [mask for mask in good if fabric.mask_faults(mask, ())] == []
    assert set(fabric.decode_mask(0xAA).values()) == {"false", "not supported"}


@in_subtests("field", fabric.FIELDS)
def test_every_other_value_of_a_field_is_none(field: fabric.MaskField) -> None:
    for number in set(range(1 << field.bits)) - {*field.good}:
        for judged in ((), (field.name,)):
            fault = bool(judged) or number >= len(field.words)
            assert [*fabric.mask_faults(number << field.shift, judged).values()] == [fault]


def test_a_bit_of_no_field_is_a_fault() -> None:
    assert fabric.mask_faults(1 << 20, ()) == {"unknown bits: 0x100000": True}
