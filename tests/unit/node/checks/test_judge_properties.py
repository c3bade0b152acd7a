"""What holds of the judgement whatever the document: it never raises, and doubt never helps."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from itertools import islice
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from b200kit.node.checks.judge import judge, registered
from b200kit.node.state.verdict import Action, Verdict
from tests.subtests import in_subtests
from tests.unit import corpus, paths, readings, states
from tests.unit.case import EXPECTATION_KEYS, Case, apply

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
ODD: list[Any] = [
    None,
    True,
    -1,
    10**400,
    1e308,
    float("nan"),
    "",
    "\ud800",
    [],
    [[]],
    {},
    {"unmeasured": {}},
]
MENDED_BY_NOT_READING = {
    ("more switch management functions than two switches have", "pci.nics[4].switch_management"):
        "without the fifth, all four are there; whose it is, is noted",
}  # fmt: skip
"""Faults, and readings without which they are notes, and why."""
PARTNERS, DOUBTS = 3, 3
"""Other faults, and other readings, that each fault is tried with."""


@cache
def faults() -> list[Case]:
    """Every case of a node that is not fit and that reports what a node can."""
    return [case for case in corpus.cases("unfit", "unmeasured") if case.valid]


@cache
def branches() -> list[str]:
    """Every kind of reading, and the parts that they are in."""
    return sorted(readings.branches())


@cache
def leaves() -> list[paths.Path]:
    """Every value of an expectation."""
    return list(paths.leaves(states.expectation()))


def others(number: int, items: list[Any], count: int) -> list[Any]:
    """Some entries of a list, other ones for each number, the same in every run."""
    return list(islice(items[(number * 7 + 3) % len(items) :] + items, count))


def found(case: Case) -> set[str]:
    """The checks that keep the node of a case from going live."""
    return {finding.check for finding in corpus.verdict_of(case.name).blocking}


def blocked_by(names: set[str], expect: Any, state: Any) -> set[str]:
    """Which of some checks keep a node from going live; the others could only add to it."""
    chosen = {name: run for name, run in registered().items() if name in names}
    return {finding.check for finding in judge(expect, state, chosen).blocking}


def assert_sound(verdict: Verdict) -> None:
    """No check fell over, and all of them answered."""
    assert [f.summary for f in verdict.findings if "the check failed" in f.summary] == []
    message = {finding.check for finding in verdict.findings}
    assert message >= set(registered()) or message <= corpus.DOCUMENT_CHECKS


@given(expect=JSON, state=JSON)
def test_judge_never_raises_on_any_json(expect: Any, state: Any) -> None:
    assert judge(expect, state).fit == "unmeasured"


@given(data=st.data())
def test_judge_never_raises_on_a_state_with_odd_values(data: st.DataObject) -> None:
    state = states.healthy()
    for kind in data.draw(st.lists(st.sampled_from(branches()), min_size=1, max_size=3)):
        try:
            paths.put(state, readings.branches()[kind], data.draw(JSON))
        except (KeyError, IndexError, TypeError):
            continue  # an odd value was put above
    assert_sound(judge(states.expectation(), state))


@in_subtests("number", lambda: range(0, len(branches()), 4), one_in=5)
def test_judge_never_raises_on_odd_values_of_any_kind(number: int) -> None:
    """The longest paths first: a value put above would take away the place of one below."""
    state = states.healthy()
    places = [readings.branches()[kind] for kind in branches()[number : number + 4]]
    for place in sorted(places, key=len, reverse=True):
        paths.put(state, place, deepcopy(ODD[(number + len(place)) % len(ODD)]))
    assert_sound(judge(states.expectation(), state))


@in_subtests("number", lambda: range(0, len(leaves()), 4), one_in=10)
def test_judge_never_raises_on_odd_values_in_an_expectation(number: int) -> None:
    """Each leaf in turn of another kind; the four are far from each other, in other checks."""
    expect = states.expectation()
    for place in leaves()[number // 4 :: len(leaves()) // 4 + 1]:
        paths.put(expect, place, deepcopy(ODD[(number // 4 + len(place)) % len(ODD)]))
    assert_sound(judge(expect, states.healthy()))


@given(path=st.deferred(lambda: st.sampled_from(leaves())), value=JSON)
def test_judge_never_raises_on_an_expectation_with_an_odd_value(
    path: paths.Path, value: Any
) -> None:
    expect = states.expectation()
    paths.put(expect, path, value)
    assert_sound(judge(expect, states.healthy()))


@in_subtests("number", lambda: range(len(faults())), ids=lambda n: faults()[n].id, one_in=20)
def test_one_more_fault_never_makes_a_node_fit(number: int) -> None:
    first = faults()[number]
    alike = [
        case for case in faults() if (case.base, case.hardware) == (first.base, first.hardware)
    ]
    for second in others(number, alike, PARTNERS):
        expect, state = first.expectation(), first.state()
        try:
            second.spoil(state)
            apply(expect, second.expect, EXPECTATION_KEYS)
        except (paths.PathError, KeyError, TypeError):
            continue  # the first fault took away what the second would spoil
        assert blocked_by(found(first) | found(second), expect, state), f"with {second.id}"


@in_subtests("number", lambda: range(len(faults())), ids=lambda n: faults()[n].id, one_in=20)
def test_a_reading_that_is_gone_never_mends_a_check(number: int) -> None:
    case = faults()[number]
    expect, before = case.expectation(), found(case)
    for path in [
        *own(case),
        *map(readings.branches().__getitem__, others(number, branches(), DOUBTS)),
    ]:
        state = case.state()
        try:
            paths.put(state, path, readings.GONE)
        except (KeyError, IndexError, TypeError):
            continue  # the fault took it away
        after = blocked_by(before, expect, state)
        mended = (case.name, paths.write(path)) in MENDED_BY_NOT_READING
        assert before <= after or "document.state" in after or mended, paths.write(path)


@in_subtests("mended", MENDED_BY_NOT_READING)
def test_what_not_reading_mends_is_a_note(mended: tuple[str, str]) -> None:
    case, state = corpus.named(mended[0]), corpus.named(mended[0]).state()
    paths.put(state, paths.parse(mended[1]), readings.GONE)
    notes = [f for f in judge(case.expectation(), state).findings if f.action is Action.MONITOR]
    assert [f.check for f in notes] == [wanted.check for wanted in case.findings]


def own(case: Case) -> list[paths.Path]:
    """Readings that a fault itself changes, some of them, and the part that the first is in.

    A note is one reading: what is in it is a document of its own.
    """
    state = case.state()
    places = [paths.matching(state, paths.parse(text))[0] for text in case.set]
    whole = [path[:2] if path[0] == "notes" else path for path in places]
    return [*whole[:1], *whole[-1:], *(path[:1] for path in whole[:1])]
