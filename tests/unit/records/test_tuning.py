"""Layouts to try, how long that takes, which is chosen and how sure that is, what is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from b200kit.catalog import load as catalogue
from b200kit.inventory.parse import parse as parse_spec
from b200kit.inventory.spec import NodeSpec
from b200kit.node.client.smoke_result import SmokeResult
from b200kit.records import tuning
from b200kit.records.goodput_knee import Sweep
from b200kit.records.tuning import (
    Layout,
    LayoutChoice,
    Load,
    RefusedLayout,
    TuningCell,
    TuningResult,
    Workload,
)
from b200kit.run.node import span
from b200kit.tuning import candidates, fragment, plan
from b200kit.tuning.choice import choose
from tests.messages import assert_message, lines_with
from tests.subtests import in_subtests
from tests.unit import smoke_results
from tests.unit.specs import data

SWEEP = Sweep()
LOAD = Load(120, 20.0, 100.0, 100.0)
CHAT = Workload("chat", 128, 64)
TWO = Layout(4, 2, 1, False, 2048, 8, ("A",))
FOUR = Layout(2, 4, 1, False, 2048, 8, ("configured", "B"))
EIGHT = Layout(1, 8, 1, False, 2048, 8, ("C",))


def parse(changes: Mapping[str, object]) -> Any:
    """The inventory of a node for a 70B model, with some keys on top."""
    site = data(model="llama-3.3-70b-fp8", engine={**data()["engine"], "kind": "cuda"})
    return parse_spec({**site, **changes}, catalogue.load())


def spec(**changes: Any) -> NodeSpec:
    """The same, parsed."""
    found = parse(changes)
    assert isinstance(found, NodeSpec), found
    return found


def tried(
    asked: NodeSpec, goal: str = "latency", only: tuple[str, ...] = ()
) -> tuple[dict[str, Layout], list[RefusedLayout]]:
    """Candidates by their names, and what is refused."""
    matrix = plan.matrix()["layouts"]
    found, refused = candidates.candidates(asked, catalogue.load(), goal, matrix, parse, only)
    return {"/".join(one.layout.names): one.layout for one in found}, refused


def ours(good: int = 120, of: int = 120, **changes: Any) -> SmokeResult:
    """What our client says: so many of the requests were good."""
    figures = {"num_prompts": of, "completed": of, "goodput_share": good / max(of, 1)}
    own = {f"main.{key}": value for key, value in figures.items()}
    return smoke_results.result({**own, **changes})


def cell(layout: Layout, rate: float, good: int = 120, **changes: Any) -> TuningCell:
    """A measured cell: so many of 120 requests were good."""
    own = {"main.request_goodput": rate * good / 120, **changes}
    found = ours(good, **own)
    return TuningCell(layout, "chat", rate, "done", "", found)


def at_first(layout: Layout, value: float, low: float, high: float, good: int = 120) -> TuningCell:
    """A cell at the first rate with its median E2E and interval, in ms."""
    e2el: dict[str, Any] = {"main.e2el.p50_ms": value, "main.e2el.p50_ci95_ms": [low, high]}
    return cell(layout, SWEEP.first, good, **e2el)


def chosen(goal: str, *cells: TuningCell) -> LayoutChoice:
    """What a goal makes of some cells."""
    return choose(goal, "chat", cells, SWEEP)


def name_of(found: LayoutChoice) -> str:
    """The chosen layout's."""
    return found.layout.name if found.layout else ""


# Layouts.


def test_matrix_is_the_sources_five_rows() -> None:
    rows = plan.matrix()["layouts"]
    assert {
        name: (row["tensor_parallel"], row["replicas"], row["max_num_batched_tokens"],
               row["max_num_seqs"])
        for name, row in rows.items()
    } == {"A": (2, 4, 2048, 8), "B": (4, 2, 2048, 8), "C": (8, 1, 2048, 8),
          "D": (4, 2, 1024, 4), "E": (2, 4, 4096, 16)}  # fmt: skip
    assert all({"printed", "instead", "why"} <= set(row) for row in plan.matrix()["corrected"])


def test_configured_planned_and_matrix_are_tried_once_each() -> None:
    found, refused = tried(spec())
    assert list(found) == [
        "configured/plan/plan-TP4/B", "plan-TP1", "plan-TP2/A", "plan-TP8/C", "plan-half-tokens",
        "plan-half-seqs", "plan-twice-tokens", "plan-twice-seqs", "D", "E",
    ]  # fmt: skip
    assert refused == []
    assert found["plan-half-tokens"].max_num_batched_tokens == 1024
    assert found["plan-twice-seqs"].max_num_seqs == 16


def test_model_that_does_not_fit_is_refused_with_the_inventorys_words() -> None:
    asked = spec(model="llama-3.1-405b-fp8", replicas=1, tensor_parallel=8)

    def big(changes: Mapping[str, object]) -> Any:
        return parse({"model": "llama-3.1-405b-fp8", **changes})

    matrix = plan.matrix()["layouts"]
    found, refused = candidates.candidates(asked, catalogue.load(), "latency", matrix, big)
    assert "configured" in found[0].layout.names
    reasons = {one.name.split(",")[0]: one.why for one in refused}
    assert "405 GB" in reasons["TP1 x 8"] or "missing" in reasons["TP1 x 8"]
    assert set(reasons) >= {"TP1 x 8", "TP2 x 4"}


def test_degraded_node_and_unknown_names_are_told() -> None:
    _, refused = tried(spec(), only=("A", "Q"))
    assert_message(*[str(one) for one in refused])


def test_experts_are_spread_for_throughput_and_not_for_latency() -> None:
    moe = spec(model="gpt-oss-120b", replicas=8, tensor_parallel=1)
    known = catalogue.load()
    for goal, expected in (("throughput", True), ("latency", False)):
        planned = [x for x in candidates._widths(moe, known, goal) if x.tensor_parallel == 4]
        assert [one.expert_parallel for one in planned] == [expected]


def test_load_that_is_longer_than_a_request_may_be_is_refused() -> None:
    loads, refused = candidates.workloads(
        spec(max_model_len=1024), plan.matrix()["workloads"], ("long", "chat", "nope")
    )
    assert [load.name for load in loads] == ["chat"]
    assert_message(*[str(one) for one in refused])


# Cells.


def test_key_is_of_layout_load_and_system_and_of_no_name() -> None:
    plain = tuning.key(TWO, CHAT, LOAD, "system")
    assert plain == tuning.key(replace(TWO, names=("plan-TP2",)), CHAT, LOAD, "system")
    others = [
        tuning.key(EIGHT, CHAT, LOAD, "system"),
        tuning.key(TWO, replace(CHAT, output_tokens=65), LOAD, "system"),
        tuning.key(TWO, CHAT, replace(LOAD, ttft_ms=50.0), "system"),
        tuning.key(TWO, CHAT, LOAD, "another"),
    ]
    assert len({plain, *others}) == 5


@in_subtests(
    ("found", "is_done"),
    [
        (ours(60, 60), True),
        (ours(60, 60, verdict="fail", reasons=["objective missed"]), True),
        (ours(60, 60, verdict="invalid", reasons=["starved"]), False),
        (ours(60, 60, **{"verdict": "fail", "client.starved": True}), False),
        (ours(0, 0, verdict="fail", reasons=["correctness"]), False),
    ],
)
def test_only_a_result_that_says_something_of_the_server_is_done(
    found: SmokeResult, is_done: bool
) -> None:
    assert (tuning.fault(found) == "") is is_done


def test_cell_without_figures_is_unknown_to_the_sweep() -> None:
    sound = cell(TWO, 4.0)
    assert replace(sound, ours=None).point.verdict(0.95) == "unknown"
    assert replace(sound, status="failed").point.verdict(0.95) == "unknown"
    assert sound.point.verdict(0.95) == "good"


def test_rate_is_held_long_enough_for_a_queue_to_build_up() -> None:
    assert [LOAD.count(rate) for rate in (1.0, 4.0, 6.0, 64.0)] == [120, 120, 120, 1280]


# The choice.


def test_latency_takes_the_least_e2e_of_those_that_meet_the_objective() -> None:
    found = chosen(
        "latency",
        at_first(FOUR, 500, 490, 510),
        at_first(TWO, 700, 690, 710),
        at_first(EIGHT, 400, 390, 410, good=60),
    )
    assert name_of(found) == "configured/B"
    assert "E2E P50 500.0 ms (490.0 to 510.0, n=120) at 4/s" in found.why
    assert "Next is TP2 x 4" in found.why
    assert [one.layout.name for one in found.evidence] == ["configured/B", "A"]


@pytest.mark.parametrize(
    ("other", "alike"),
    [((480, 470, 495), True), ((460, 455, 465), False), ((488, 487, 489), True)],
    ids=["intervals overlap", "apart by 8 % and by interval", "apart by interval, within 5 %"],
)
def test_layouts_that_cannot_be_told_apart_leave_the_simpler(
    other: tuple[float, float, float], alike: bool
) -> None:
    found = chosen("latency", at_first(FOUR, 500, 490, 510), at_first(EIGHT, *other))
    assert name_of(found) == ("configured/B" if alike else "C")
    assert ("No measurable difference" in found.why) == alike


def test_without_the_configured_one_fewer_gpus_a_replica_are_simpler() -> None:
    found = chosen("latency", at_first(EIGHT, 500, 490, 510), at_first(TWO, 501, 490, 510))
    assert name_of(found) == "A"
    assert_message(found.why)


def test_balanced_takes_the_highest_knee_with_its_bounds() -> None:
    found = chosen(
        "balanced",
        *(cell(TWO, rate, good) for rate, good in ((4, 120), (64, 120), (128, 12))),
        *(cell(FOUR, rate, good) for rate, good in ((4, 120), (16, 120), (32, 12))),
    )
    assert name_of(found) == "A"
    assert_message(found.why)


def test_knees_whose_bounds_overlap_are_not_told_apart() -> None:
    """112 of 120 and 115 of 120 are on either side of 95 %, and neither for sure."""
    found = chosen(
        "balanced",
        *(cell(TWO, rate, good) for rate, good in ((4, 120), (8, 115), (16, 12))),
        *(cell(FOUR, rate, good) for rate, good in ((4, 120), (8, 112), (16, 12))),
    )
    assert name_of(found) == "configured/B"
    assert "No measurable difference" in found.why


def test_nothing_is_chosen_where_nothing_met_the_objective() -> None:
    failed = replace(cell(TWO, 4.0), status="failed", why="invalid: client starved")
    found = chosen("latency", at_first(FOUR, 500, 490, 510, good=10), failed)
    assert found.layout is None
    assert "nothing is chosen" in found.why


# Time and words.


def test_time_is_said_as_a_person_does() -> None:
    assert [span(s) for s in (40, 700, 11_100)] == ["40 s", "12 m", "3 h 05 m"]


def test_fragment_is_inventory_data_and_nothing_else() -> None:
    choice = chosen("latency", at_first(FOUR, 500, 490, 510))
    refused = (RefusedLayout("C", "two\nlines"),)
    found = TuningResult("n01", "latency", 0.95, (), (), choice, refused)
    text = fragment.fragment(found, FOUR, "run-1", "2026-11-22T00:00:00Z")
    values: dict[str, object] = {}
    exec(text, {}, values)
    assert values == FOUR.values
    assert all(len(line) <= 100 for line in text.splitlines())
    assert_message(*lines_with(text, "Not tried"))


def test_every_sweep_has_a_knee() -> None:
    found = tuning.knees([cell(TWO, 4.0), cell(TWO, 8.0, 12), cell(FOUR, 4.0)], SWEEP)
    assert [(one.layout.name, one.knee.rate, one.knee.goodput) for one in found] == [
        ("A", 4.0, 4.0), ("configured/B", 4.0, 4.0),
    ]  # fmt: skip
