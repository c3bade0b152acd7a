"""This run against the record as a picture, and the run conditions that decided its figures."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from b200kit.node.lib.documents import structure, unstructure
from b200kit.node.state.view import Unmeasured
from b200kit.records import comparison
from b200kit.records.comparison import AgainstRecord, timeline
from b200kit.records.entries import MeasuredRun, Record
from b200kit.report.charts.baseline_timeline import TimelinePictures, timeline_of
from b200kit.report.content.records import record_of, run_conditions_of
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.records import runs
from tests.unit.report import records
from tests.unit.report.pages import classes, page
from tests.unit.report.test_report_charts import places

NEW_DRIVER = {"versions__driver": "580.159.03"}


def document(*later: MeasuredRun, count: int = 8) -> dict[str, Any]:
    """What stands in a HostRecord after `count` accepted runs and later ones."""
    first = [runs.run(i, day) for i, day in enumerate(runs.days(5, count, 0.01))]
    known = runs.kept(first)
    entry = runs.accepted(known.runs, at="2026-10-20T09:00:00Z")
    known = runs.kept([*first, entry, *later])
    return dict(unstructure(of(known)))


def of(known: Record) -> AgainstRecord:
    """What a report shows of a record."""
    return replace(
        comparison.against(known),
        timeline=timeline(known),
        conditions=known.runs[-1].conditions,
        by_tp=(),
    )


def shown(record: dict[str, Any]) -> TimelinePictures:
    """Its pictures."""
    return timeline_of(structure(AgainstRecord, record))


def slow(number: int, **fields: object) -> MeasuredRun:
    """A run that is a tenth slower."""
    return runs.run(number, {m: v * 1.1 for m, v in runs.BASE.items()}, **fields)


def test_newest_run_is_marked_outside_the_band_of_the_baseline() -> None:
    found = shown(document(runs.run(9), slow(10, **NEW_DRIVER)))
    assert [figure.caption.split(";")[0] for figure in found.figures] == [
        "TTFT",
        "ITL",
        "TPOT",
        "E2E",
    ]
    ttft = found.figures[0].svg
    assert len(places(ttft, "mark square")) == 8
    assert len(places(ttft, "mark dot")) == 1
    (newest,) = places(ttft, "mark diamond")
    (band,) = re.findall(r'y="([\d.]+)" width="[\d.]+" height="([\d.]+)" rx="0" class="band"', ttft)
    assert newest[1] < float(band[0])  # above it: slower
    assert newest[0] > max(x for x, _ in places(ttft, "mark square"))
    assert "the newest 45.1 ms, outside the baseline" in ttft
    assert all(float(band[0]) <= y <= sum(map(float, band)) for _, y in places(ttft, "mark square"))


def test_change_is_a_line_in_each_picture_and_its_words_are_in_the_table() -> None:
    found = shown(document(runs.run(9), slow(10, **NEW_DRIVER), slow(11)))
    changed = [row for row in found.table.rows if row[-1]]
    assert [row[1] for row in changed] == ["2026-10-12 09:00", "2026-10-11 09:00"]
    assert "-> 580.159.03" in changed[1][-1]
    assert all(figure.svg.count('class="change"') == 2 for figure in found.figures)


def test_run_that_counts_nowhere_has_a_place_and_no_height() -> None:
    starved = runs.figured(slow(9), verdict="invalid")
    found = shown(document(runs.run(10), starved))
    (x, _), *rest = places(found.figures[0].svg, "mark cross")
    assert not rest
    assert x > max(at for at, _ in places(found.figures[0].svg, "mark dot"))
    assert found.table.rows[0][2:-1] == ("-", "-", "-", "-", "its verdict is invalid")
    assert places(found.figures[0].svg, "mark diamond") == []


def test_without_a_baseline_there_is_no_band() -> None:
    known = runs.kept([runs.run(0), runs.run(1)])
    found = timeline_of(of(known))
    assert_message(found.figures[0].caption)
    assert "band" not in found.figures[0].svg


def test_one_run_draws_no_trend() -> None:
    known = runs.kept([runs.run(0)])
    assert timeline_of(of(known)).figures == []
    assert "Run by run" not in page(n=records.live(record=unstructure(of(known)))).text
    starved = runs.figured(runs.run(1), verdict="invalid")
    known = runs.kept([runs.run(0), starved])
    found = page(n=records.live(record=unstructure(of(known))))
    assert "median of each run" not in found.text
    assert "its verdict is invalid" in found.text


def test_newest_run_without_figures_stands_nowhere() -> None:
    starved = runs.figured(slow(10), verdict="invalid")
    found = shown(document(runs.run(9), starved))
    assert "the newest has none." in found.figures[0].svg


def test_baseline_too_small_to_predict_shows_its_own_spread() -> None:
    found = document(runs.run(9))
    found["hint"] = {}
    assert_message(shown(found).figures[0].caption)


def test_page_shows_all_runs_and_the_whole_conditions() -> None:
    found = page(n=records.live(record=document(slow(10, **NEW_DRIVER))))
    assert classes(found)["change"] == 4
    for words in ("9 runs in figures", "accepted as the baseline", "cache salt",
                  "smoke-10", "580.159.03", "fields,"):  # fmt: skip
        assert words in found.text, words


def test_conditions_tells_each_field_whole_and_what_is_not_known() -> None:
    run_conditions = runs.run_conditions(serving__config={"b": "x" * 90, "a": 1},
                             versions__driver={"unmeasured": "no driver"})  # fmt: skip
    found = run_conditions_of(replace(of(runs.kept([runs.run(0)])), conditions=run_conditions))
    fields = dict(pair for _, rows in found.groups for pair in rows)
    assert "unmeasured: no driver" in fields.values()
    assert f"a=1; b={'x' * 90}" in fields.values()
    assert re.fullmatch(r"\d+ fields, [1-9]\d* of them unmeasured", found.summary)


def test_result_without_a_conditions_says_so() -> None:
    unread = Unmeasured("the record is damaged")
    for found in (unread, replace(of(runs.kept([runs.run(0)])), conditions=None)):
        assert run_conditions_of(found).why.startswith("unmeasured")


@in_subtests("odd", [None, "x", {}, {"timeline": {}}, {"schema": "b200kit/against-the-record/1"}])
def test_odd_records_draw_nothing_and_say_so(odd: object) -> None:
    assert timeline_of(record_of({"record": odd})).figures == []
    assert page(n=records.live(record=odd)).open == []
