"""When a fault that is seen while a node serves counts, and when it is over."""

from __future__ import annotations

import pytest

from b200kit.node.lib import documents
from b200kit.node.state import watch
from b200kit.node.state.verdict import Finding, Status, Verdict
from b200kit.node.state.watch import HealthCheck, HealthRules, NodeFault
from tests.subtests import in_subtests

RULES = HealthRules(confirm=2, health_checks=3, clear=3)
LINKS = Finding("17 of 18 links", Status.FAIL, "GPU 2", check="nvlink.links")
SOUND = Finding("all links are up", check="nvlink.links")
UNREAD = Finding("NVML hangs", Status.UNMEASURED, check="nvlink.links")
OTHER = Finding("fine", check="ecc.enabled")
SEEN = {"f": LINKS, "s": SOUND, "u": UNREAD, "-": OTHER}


def after(looks: str) -> tuple[NodeFault, ...]:
    """What is known after looks that saw the fault, none, could not see, or judged otherwise."""
    known: tuple[NodeFault, ...] = ()
    for number, look in enumerate(looks):
        verdict = Verdict((SEEN[look],))
        known = watch.looked(known, verdict, lambda _: (1,), RULES, f"T{number}")
    return known


@in_subtests(
    ("health_checks", "confirmed"),
    [
        ("f", False),
        ("fs", False),
        ("ff", True),
        ("fsf", True),
        ("fssf", False),
        ("fuf", True),
        ("uuu", False),
        ("ffss", True),
        ("ffsss", False),
        ("ffssuss", True),
        ("ffuuuuuu", True),
        ("ff---", True),
        ("ffssuss" + "s", False),
    ],
)
def test_a_fault_counts_when_it_was_seen_often_enough_and_is_over_when_it_is_gone(
    health_checks: str, confirmed: bool
) -> None:
    assert any(fault.confirmed for fault in after(health_checks)) is confirmed


def test_a_fault_that_is_over_is_forgotten() -> None:
    assert after("fsss") == ()
    assert after("ffssss") == ()


def test_since_is_when_it_was_first_seen_and_the_finding_is_the_newest() -> None:
    (fault,) = after("sff")
    assert (fault.since, fault.finding, fault.replicas) == ("T1", LINKS, (1,))


def test_documents_are_not_a_node() -> None:
    refused = Verdict((Finding("cannot be judged", Status.UNMEASURED, check="document.state"),))
    known = after("ff")
    for _ in range(9):
        known = watch.looked(known, refused, lambda _: (1,), RULES, "later")
    assert known[0].confirmed


@in_subtests(
    ("takes_out", "out"),
    [
        (["nvlink"], {1: "17 of 18 links"}),
        (["nvlink.links"], {1: "17 of 18 links"}),
        (["nvlink.speed", "ecc"], {}),
        ([], {}),
    ],
)
def test_what_takes_replicas_out_is_named_by_data(
    takes_out: list[str], out: dict[int, str]
) -> None:
    assert watch.out(after("ff"), takes_out) == out
    assert watch.out(after("f"), takes_out) == {}


def test_a_person_hears_of_it_twice() -> None:
    said = []
    looks = "fffsssss"
    for number in range(len(looks)):
        found = watch.changes(after(looks[:number]), after(looks[: number + 1]))
        said += [(number, change) for change, _ in found]
    assert said == [(1, "confirmed"), (5, "over")]


def test_kept_for_the_next_look_of_the_same_boot() -> None:
    known = HealthCheck("T9", 90.0, in_service=True, faults=after("ff"))
    assert documents.decode(HealthCheck, documents.to_bytes(known)) == known


@in_subtests("key", ["status", "confirmed", "signs", "since", "replicas", "summary"])
def test_a_look_whose_fault_lacks_something_is_none(key: str) -> None:
    look = documents.unstructure(HealthCheck("T9", 90.0, in_service=True, faults=after("ff")))
    for entry in (look["faults"][0], look["faults"][0]["finding"]):
        entry.pop(key, None)
    with pytest.raises(documents.Malformed, match=key):
        documents.structure(HealthCheck, look)
