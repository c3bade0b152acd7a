"""The fleet as it stands now: what answers add up to, and who needs a person first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from b200kit.node.lib.documents import unstructure
from b200kit.node.state.quarantine import Quarantine
from b200kit.report.content.now.fleet import FleetNow, fleet_now
from b200kit.report.content.now.node import NodeAnswer, Planned, Refused
from b200kit.report.last_runs import LastRuns
from tests.unit.report import fleets, records
from tests.unit.report.fleets import fault, held, kept, known, look, proof, replica, stamp, standing
from tests.unit.report.pages import write

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
DOWN = [replica(0, "DRAIN", False), replica(1, "DOWN", False)]
_TAKEN_OUT = Quarantine(stamp(3600), stamp(3600), "ops", "GPU 4")
_TRIED = _TAKEN_OUT.admitted("ops", (stamp(60), stamp(0)), fleets.BOOT, fleets.BOOT_S + 60)
MARK, TRIAL = unstructure(_TAKEN_OUT), unstructure(_TRIED)


def of(
    document: Any, planned: Planned | None = None, refused: dict[str, Refused] | None = None,
    **changed: Any,
) -> FleetNow:  # fmt: skip
    """A fleet of one node."""
    work = {"n1": planned} if planned else {}
    return fleet_now({"n1": known(document, **changed)}, work, (), fleets.NOW, 10.0, refused)


def words(found: FleetNow) -> list[str]:
    """How the node stands, by each of its points."""
    return [point.state for point in found.nodes[0].points]


def changed(**parts: Any) -> FleetNow:
    """A sound node but for some parts of its answer."""
    return of(standing("n1", **parts))


@pytest.mark.parametrize(("share", "says"), [(50, True), (0, True), (100, False), (None, False)])
def test_what_an_expired_proof_leaves_of_the_share_is_said(share: object, says: bool) -> None:
    found = changed(proof=proof("n1", -9.0), share=share)
    assert (f"its share is {share} %" in found.nodes[0].points[0].what) is says


def test_a_node_that_serves_whole_under_a_valid_proof_is_sound() -> None:
    found = changed()
    assert (words(found), found.exit_code, found.sound) == ([], 0, ("n1",))
    assert (found.proven, found.gpus, found.serving, found.out) == ((8, 8), 8, 1, 0)


@pytest.mark.parametrize(
    ("parts", "word", "code"),
    [
        ({"proof": None}, "not proven", 2),
        ({"proof": {"unmeasured": "x"}}, "unknown", 2),
        ({"proof": proof("n1", schema="b200kit/proof/1")}, "unknown", 2),
        ({"proof": proof("n1", issued_at="soon")}, "unknown", 2),
        ({"proof": proof("n2")}, "expired", 1),
        ({"proof": proof("n1", boot_id="another")}, "expired", 1),
        ({"proof": proof("n1", -600.0)}, "expired", 1),
        ({"proof": proof("n1", 2.0)}, "expired", 1),
        ({"proof": proof("n1", serving={"replicas": [1], "gpus": 4})}, "not proven", 2),
        ({"proof": proof("n1", 900.0)}, "expiring", 0),
        ({"watch": None}, "unknown", 2),
        ({"watch": {"unmeasured": "x"}}, "unknown", 2),
        ({"watch": look() | {"schema": "x"}}, "unknown", 2),
        ({"watch": look() | {"boot_s": None}}, "unknown", 2),
        ({"watch": look(age_s=76)}, "unknown", 2),
        ({"boot_s": 60.0}, "unknown", 2),
        ({"watch": look(fault())}, "fault", 1),
        ({"watch": look(fault(confirmed=False))}, None, 0),
        ({"mark": {"why": "x"}}, "fault", 1),
        ({"mark": {"unmeasured": "x"}}, "unknown", 2),
        ({"quarantine": MARK}, "out", 1),
        ({"quarantine": TRIAL}, "planned", 1),
        ({"quarantine": {"unmeasured": "x"}}, "unknown", 2),
        ({"replicas": DOWN}, "out", 1),
        ({"replicas": [replica(0), DOWN[1]]}, "partly out", 1),
        ({"replicas": [replica(0), replica(1, takes={"unmeasured": "x"})]}, "unknown", 2),
        ({"replicas": {"unmeasured": "x"}}, "unknown", 2),
        ({"replicas": None}, "unknown", 2),
        ({"headless": True, "replicas": []}, "member", 2),
        ({"schema": "b200kit/standing/2"}, "unknown", 2),
    ],
)  # fmt: skip
def test_what_is_not_sound_is_said_and_what_is_not_known_is_never_sound(
    parts: dict[str, Any], word: str | None, code: int
) -> None:
    found = changed(**parts)
    assert (words(found)[:1], found.exit_code) == ([word] if word else [], code)


@pytest.mark.parametrize(
    "parts",
    [{}, {"proof": None}, {"proof": proof("n2")}, {"proof": proof("n1", -9.0)}],
)
def test_only_gpus_that_serve_under_a_valid_proof_are_proven(parts: dict[str, Any]) -> None:
    assert changed(**parts).proven == (0 if parts else 8, 8)
    for other in (DOWN[1], replica(1, takes={"unmeasured": "x"})):
        one = {"replicas": [replica(0), other], **parts}
        assert changed(**one).proven == (0 if parts else 4, 4)


def test_a_node_that_does_not_answer_serves_nothing_that_is_known() -> None:
    found = of(standing("n1"), why="no answer in 20 s", read_at=fleets.NOW - 260)
    assert (words(found), found.exit_code) == (["not read"], 2)
    assert (found.proven, found.serving, found.unread) == ((0, 0), 0, 1)
    assert found.rows[0].points[0].age_s == 260
    never = fleet_now({"n1": NodeAnswer(since=fleets.NOW - 5)}, {}, (), fleets.NOW, 10.0)
    assert (words(never), never.exit_code) == (["not read"], 2)


def test_a_replica_that_is_held_is_out_since_its_fault_and_says_what_to_do() -> None:
    point = of(held("n1")).rows[0].points[0]
    assert (point.state, point.age_s) == ("partly out", 252.0)
    assert point.what.startswith("replica 0: GPU 3")
    assert point.next.startswith("reset the GPU")
    assert words(of(held("n1"))) == ["partly out"]


def test_an_ejected_replica_is_out_since_its_ejection_whatever_the_clock_was_set_to() -> None:
    last = {"at": stamp(1)}
    ejected = kept(last, out=True, why="no answer", ejections=(fleets.BOOT_S - 90,))
    found = changed(replicas=[replica(0, "DRAIN", False), replica(1)], watchdog={"0": ejected})
    assert found.rows[0].points[0].age_s == 92.0


def test_replicas_that_are_out_for_one_reason_are_said_once() -> None:
    both = [replica(0, "DRAIN", False), replica(1, "DRAIN", False)]
    assert len(changed(replicas=both).nodes[0].points) == 1
    assert len(changed(replicas=DOWN).nodes[0].points) == 2


def test_planned_work_is_no_fault_and_a_fault_stays_one() -> None:
    change, repair = Planned("wave 2 of 7", change=True), Planned("repaired by reset")
    out = standing("n1", replicas=DOWN)
    assert {*words(of(out, change))} == {"planned"}
    assert of(out, change).out == 0
    assert words(of(out, repair))[0] == "out"
    assert {*words(of(out, change, why="lost"))} == {"planned"}
    assert words(of(standing("n1", watch=look(fault())), change))[0] == "fault"
    assert words(of(standing("n1"), Planned("damaged", damaged=True))) == ["unknown"]


def test_node_that_a_run_refused_is_that_until_a_later_run_judged_it(tmp_path: Path) -> None:
    def run(name: str, **host: Any) -> dict[str, Refused]:
        write({**records.record(n1={**records.red(), **host}), "run": name}, tmp_path)
        return LastRuns(tmp_path).refused(["n1", "new"])

    assert LastRuns(tmp_path).refused(["n1"]) == {}
    found = of(standing("n1"), refused=run("20261120-010101"))
    assert (found.exit_code, found.sound, words(found)) == (1, (), ["red"])
    assert found.nodes[0].points[0].next
    bare = of(standing("n1", replicas=[]), refused=run("20261120-010101"))
    assert [(point.state, bool(point.next)) for point in bare.nodes[0].points] == [
        ("red", True), ("unknown", False),
    ]  # fmt: skip
    red = run("20261120-010101")
    assert {*words(of(standing("n1"), Planned("wave 1", change=True), red))} == {"planned"}
    assert words(of(standing("n1"), Planned("repaired"), red))[0] == "red"
    # A run that did not reach it judged nothing.
    assert run("20261120-020202", outcome="unreachable")["n1"].word == "red"
    assert run("20261120-030303", outcome="live") == {}
    assert run("20261120-040404", outcome="unfit")["n1"].word == "unfit"
    (tmp_path / "20261120-040404" / "summary.json").write_text("{")
    assert {one.word for one in LastRuns(tmp_path).refused(["n1"]).values()} == {"unknown"}


def test_nodes_of_which_the_same_is_said_are_one_row_and_the_oldest_gives_its_time() -> None:
    nodes = {f"n{i}": known(held(f"n{i}"), read_at=fleets.NOW - i) for i in (1, 9, 5)}
    rows = fleets.fleet(nodes).rows
    assert [row.names for row in rows] == [("n1", "n9", "n5")]
    assert rows[0].points[0].age_s == 259.0


def test_what_needs_a_person_most_stands_first() -> None:
    assert [row.outcome.word for row in fleets.mixed().rows] == [
        "out", "partly out", "partly out", "expired", "not read", "unknown", "planned", "expiring",
    ]  # fmt: skip


def test_an_inventory_without_nodes_is_not_sound() -> None:
    assert fleets.fleet({}).exit_code == 2


@settings(deadline=None, max_examples=150)
@given(st.sampled_from([*standing("n1")]), JSON)
def test_no_answer_of_a_node_ends_the_fold(key: str, value: Any) -> None:
    document = standing("n1")
    found = of(document | {key: value})
    assert found.exit_code in (0, 1, 2)
    # Nothing but what is sound is taken for it: a part that is another has to say something.
    assert (
        found.nodes[0].points
        or document[key] == value
        or key in ("watchdog", "drained", "headless")
    )


@settings(deadline=None, max_examples=60)
@given(JSON)
def test_no_answer_at_all_is_sound(value: Any) -> None:
    assert of(value).exit_code == 2
