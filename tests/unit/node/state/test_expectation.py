"""The expectation says how to judge; an old document misses keys, and no word is guessed."""

from __future__ import annotations

from typing import Any

import pytest

from b200kit.node.state.expectation import Expectation, Unexpected
from b200kit.records import expected
from tests.subtests import in_subtests

WORDS = {
    "passport": ("keep", "renew"),
    "bandwidth": ("off", "when-installed", "required"),
    "bring_up": ("off", "judged"),
}


def test_an_old_document_judges_all_and_asks_for_nothing_more() -> None:
    old = Expectation({})
    assert (old.clock_judged(), old.acs_judged(), old.settings().names()) == (True, True, [])
    assert (old.passport(), old.bandwidth()) == ("keep", "off")


@in_subtests(("key", "word"), [(key, w) for key in WORDS for w in WORDS[key]])
def test_known_word_is_taken(key: str, word: str) -> None:
    assert Expectation({key: word}).choice(key, WORDS[key]) == word


@in_subtests("key", [*WORDS, "clock_synchronized"])
@in_subtests("odd", ["", "no", None, 0, [], {"unmeasured": "x"}])
def test_unknown_word_is_refused_under_its_key(key: str, odd: Any) -> None:
    document = Expectation({key: odd})
    read = {
        "passport": document.passport,
        "bandwidth": document.bandwidth,
        "bring_up": document.bring_up,
        "clock_synchronized": document.clock_judged,
    }
    with pytest.raises(Unexpected, match=key):
        read[key]()


@pytest.mark.parametrize("value", [[1], [None], ["a", []]])
def test_a_list_of_names_holds_texts_only(value: list[Any]) -> None:
    document = Expectation({"hardware": {"expect": {"pci.ids": {"value": value}}}})
    with pytest.raises(Unexpected, match=r"pci\.ids"):
        document.words("pci.ids")


def test_the_expectation_of_the_command_line_leaves_nothing_out() -> None:
    expect = Expectation(expected.by_hardware("hgx-b200"))
    assert expect.clock_judged()
    assert expect.acs_judged()
    assert "swappiness" in expect.settings().names()
    assert (expect.passport(), expect.bandwidth()) == ("keep", "off")


@in_subtests("odd", [None, [], "x", {"unmeasured": "y"}, {"swappiness": 1}])
def test_settings_that_are_no_table_are_refused(odd: Any) -> None:
    document = Expectation({"settings": odd})
    for read in (document.settings, document.acs_judged):
        with pytest.raises(Unexpected, match="settings"):
            read()
