"""The pictures: each value at its place, nothing invented, in words and in figures as well."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from b200kit.node.client.formulas import Run
from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.latency.document import each
from b200kit.node.lib.documents import structure, unstructure
from b200kit.records import tuning as core_tuning
from b200kit.records.goodput_knee import Sweep
from b200kit.report.charts.chart import SHAPES, Axis, Chart, linear, marks, names, near, spanning
from b200kit.report.charts.latency_charts import distributions, over_time
from b200kit.report.charts.tuning_charts import SHAPES as LAYOUTS
from b200kit.report.charts.tuning_charts import sweeps
from b200kit.report.content.nodes import fleet
from b200kit.report.content.tuning import ShownTuning, all_cells, all_knees, tuning_of
from b200kit.report.html.figure import Figure
from b200kit.tuning import choice
from tests.messages import assert_message, lines_with
from tests.subtests import in_subtests
from tests.unit import smoke_results
from tests.unit.report import pages, records
from tests.unit.report.pages import classes, page, terminal
from tests.unit.report.test_endpoint_latency import record as smoke_record


def places(svg: str, class_: str) -> list[tuple[float, float]]:
    """Pixels of the markers of a class."""
    paths = re.findall(rf'<path d="([^"]*)" class="{class_}"', svg)
    return [(float(x), float(y)) for x, y in re.findall(r"M([\d.]+) ([\d.]+)", "".join(paths))]


def test_far_values_get_a_logarithmic_axis_that_says_so_and_others_do_not() -> None:
    near_ones, far = spanning([40.0, 41.0, 60.0], "ms"), spanning([40.0, 41.0, 2040.0], "ms")
    assert (near_ones.logarithmic, near_ones.low, near_ones.unit) == (False, 0.0, "ms")
    assert (far.logarithmic, far.unit) == (True, "ms, log scale")
    assert far.low <= 40 < 2040 <= far.high
    assert 0 < far.share(40) < far.share(400) < far.share(2040) <= 1


@in_subtests(
    "values",
    [[], [0.0], [0.0, 0.0], [1e-9, 1e9], [5.0, 1e4], [1e-3, 2e-3, 1e3], [3.0] * 9],
)
def test_every_axis_is_drawn_and_holds_its_values(values: list[float]) -> None:
    axis = spanning(values, "ms")
    assert axis.low < axis.high
    assert 2 <= len(axis.ticks) <= 9
    assert all(0 <= axis.share(value) <= 1 for value in values)
    assert axis.ticks[-1][0] >= max(values, default=0.0)


@pytest.mark.parametrize("values", [[41.0], [41.0, 41.0], [0.001, 0.002], [640.0, 717.0]])
def test_levels_are_shown_with_room_around_them(values: list[float]) -> None:
    axis = near(values, "ms")
    assert axis.low < min(values)
    assert max(values) < axis.high
    assert len({label for _, label in axis.ticks}) == len(axis.ticks)


def test_only_some_of_many_names_are_told() -> None:
    axis = names([f"11-{i:02d}" for i in range(40)], "runs")
    assert len(axis.ticks) <= 8
    chart = Chart(axis, linear(0, 1, ""), stand_in=False)
    assert chart.at(0, 0) < chart.at(39, 0)


def test_markers_differ_in_shape() -> None:
    drawn = {shape: re.sub(r' class="[^"]*"', "", marks(shape, [(5, 5)], 3)) for shape in SHAPES}
    assert len(set(drawn.values())) == len(SHAPES)


def test_axis_puts_values_outside_at_its_edge() -> None:
    axis = Axis(0.0, 10.0, ())
    assert (axis.share(-5), axis.share(5), axis.share(50)) == (0.0, 0.5, 1.0)


def test_percentile_that_n_cannot_carry_has_no_guide() -> None:
    stated = {"main.ttft.p50_ms": 41.0, "main.ttft.p95_ms": 44.0, "main.ttft.p99_ms": 44.5}
    for samples, shown in ((40, ["P50"]), (59, ["P50", "P95"]), (299, ["P50", "P95", "P99"])):
        given = {"ttfts_ms": [40.0 + i % 5 for i in range(samples)], "itls_ms": []} | stated
        (found,) = distributions(smoke_results.result(given))
        assert sorted(re.findall(r">(P\d\d) [\d.]+<", found.svg)) == shown


def test_close_guides_do_not_write_over_each_other() -> None:
    stated = {"main.itl.p50_ms": 10.0, "main.itl.p95_ms": 10.1, "main.itl.p99_ms": 10.2}
    given = {"ttfts_ms": [], "itls_ms": [10.0, 10.1, 10.2] * 100} | stated
    (found,) = distributions(smoke_results.result(given))
    rows = sorted(float(y) for y in re.findall(r'y="([\d.]+)" class="t-mark"', found.svg))
    assert len(rows) == 3
    assert all(below - above >= 14 for above, below in pairwise(rows))


def smoke(**over: Any) -> dict[str, Any]:
    """A smoke test with the times of its requests, as JSON."""
    return records.smoke() | {"requests": pages.requests()} | over


def pictures(**over: Any) -> list[Figure]:
    """Those of the same over time."""
    return over_time(structure(SmokeResult, smoke(**over)))


def tuned(document: object) -> ShownTuning:
    """A tuning as it is shown."""
    found = tuning_of({"tuning": document})
    assert isinstance(found, ShownTuning), found
    return found


def test_each_request_stands_at_the_second_it_was_sent() -> None:
    ttft, gaps = pictures()
    dots = places(ttft.svg, "mark speck each")
    assert len(dots) == 40
    assert len({round(b[0] - a[0], 1) for a, b in pairwise(dots)}) <= 2
    assert min(range(40), key=lambda i: dots[i][1]) == 10
    assert len(places(gaps.svg, "mark triangle each")) == 40
    assert "40 requests over 9.8 s: 40.0 to 2040 ms; 0 failed" in ttft.svg


def test_failed_request_has_a_cross_and_no_latency() -> None:
    found = pictures(requests=pages.requests(failed=(3, 4)))
    assert len(places(found[0].svg, "mark cross bad")) == 2
    assert len(places(found[0].svg, "mark speck each")) == 38
    assert ("cross", "failed: it has no latency") in found[0].keys


def test_run_of_which_every_request_failed_draws_no_latency() -> None:
    entries = pages.requests(6, failed=tuple(range(6)))
    found = pictures(requests=entries)
    assert places(found[0].svg, "mark speck each") == []
    assert "No request of 6 has a TTFT" in found[0].svg


def test_requests_that_were_thinned_out_are_counted() -> None:
    main = smoke()["main"]
    found = pictures(main=main | {"num_prompts": 6000})
    assert_message(found[0].caption)
    assert "n = 40)" in pictures(main=main | {"num_prompts": 40})[0].caption


@in_subtests("entries", [[], pages.requests(1)])
def test_without_times_there_is_no_picture_and_the_page_says_so(entries: object) -> None:
    assert pictures(requests=entries) == []
    found = page(n=records.live(smoke=smoke(requests=entries)))
    assert "does not hold when each request was sent" in found.text


def test_sweep_marks_the_knee_where_the_document_has_it() -> None:
    tuning = tuned(pages.tuning())
    one, two = sweeps(tuning)
    assert "workload A" in one.svg
    assert "TP2 x 4, 2048 tokens, 8 seqs (B): knee at 12/s" in one.svg
    points = places(one.svg, "mark dot")
    assert places(one.svg, "mark dot knee")[0] in points
    assert one.keys[0] == ("dot", "TP2 x 4, 2048 tokens, 8 seqs (B) (chosen)")
    assert len(two.keys) == 4  # the fifth layout failed under this load


def test_more_layouts_than_can_be_told_apart_are_left_to_the_table() -> None:
    document = pages.tuning()
    more = [
        {**cell, "layout": {**cell["layout"], "max_num_seqs": 99}} for cell in document["cells"]
    ]
    document["cells"] += more
    found = sweeps(tuned(document))[0]
    assert len(found.keys) == len(LAYOUTS)
    assert_message(found.caption)
    assert len(all_cells(tuned(document)).rows) == 120


def test_every_cell_is_in_figures() -> None:
    tuning = tuned(pages.tuning())
    rows = all_cells(tuning).rows
    first = rows[0]
    assert first[:5] == ("TP4 x 2, 2048 tokens, 8 seqs (configured/A)", "A", "2", "done", "2")
    assert first[5] == "100 %"
    failed = next(row for row in rows if row[3].startswith("failed"))
    assert_message(failed[3])
    assert set(failed[4:10]) == {"-"}
    assert [row[2] for row in all_knees(tuning).rows][:2] == ["12", "12"]


def test_tuning_is_shown_with_its_choice_and_what_was_not_tried() -> None:
    found = page(n=records.live(tuning=pages.tuning()))
    for words in ("highest knee of those", "surely good to 12/s", "not tried: F", "9 knees"):
        assert words in found.text, words
    assert "Tuning" not in page(n=records.live()).text


ODD: list[Any] = [
    {}, [], "x", 3, {"schema": "b200kit/tuning/1"}, {"unmeasured": "the run was stopped"},
    {**pages.tuning(), "knees": [None]},
]  # fmt: skip


@in_subtests("odd", ODD)
def test_odd_tunings_are_shown_and_nothing_is_invented(odd: object) -> None:
    found = page(n=records.live(tuning=odd, reprovision=odd))
    assert "Goodput against rate, workload" not in found.text
    assert found.open == []


def test_stand_in_is_in_every_picture_and_every_map() -> None:
    document = pages.tuning()
    for cell in document["cells"]:
        if cell.get("ours"):
            cell["ours"]["conditions"]["stand_in"] = True
    result = records.smoke(stand_in=True) | {"requests": pages.requests()}
    found = page(n=records.live(smoke=result, tuning=document))
    assert classes(found)["chart"] == classes(found)["t-stand-in"] == 6
    assert classes(page(n=records.live(smoke=smoke(), tuning=pages.tuning())))["t-stand-in"] == 0


def test_every_picture_has_a_name_and_says_what_it_shows() -> None:
    found = page(n=records.live(smoke=smoke(), tuning=pages.tuning()))
    named = [v for t, n, v in found.attributes if (t, n) == ("svg", "role")]
    assert len(found.titles) == len(named) == found.tags["desc"] == 7
    assert "Goodput against rate, workload A" in found.titles


def test_reprovisioning_is_shown_step_by_step() -> None:
    found = page(n=records.live(reprovision=pages.reprovisioned()))
    for words in (
        "reset the GPUs",
        "by ops: no NVLink",
        "GPU 2 (module 7)",
        "did drained",
        "evidence/n01.tar",
    ):
        assert words in found.text, words
    assert found.text.count("quarantined") >= 3
    assert "Reprovisioning" not in page(n=records.live()).text
    assert "unmeasured: it was killed" in page(
        n=records.live(reprovision={"unmeasured": "it was killed"})
    ).text  # fmt: skip


def test_change_of_a_sound_node_is_a_rollout_and_no_repair() -> None:
    change = {"title": "engine.version 0.32.0 -> 0.33.0", "wave": "1 of 2", "outcome": "changed"}
    host = records.live(reprovision={"state": "serving", "change": change})
    text = terminal(records.record(n1=host))
    [line] = lines_with(text, "rollout ")
    assert line.split()[1:] == ["serving:", "engine.version", "0.32.0", "->", "0.33.0"]
    assert "repair" not in text
    assert "Rollout" in page(n=host).text
    assert "Reprovisioning" not in page(n=host).text


def test_terminal_shows_the_choice_and_the_repair_in_a_line() -> None:
    host = records.live(tuning=pages.tuning(), reprovision=pages.reprovisioned())
    text = terminal(records.record(n1=host))
    assert_message(*lines_with(text, "tuning "), *lines_with(text, "repair "))
    assert not {"tuning", "repair"} & set(terminal(records.record(n1=records.live())).split())


def test_nodes_stand_side_by_side_and_one_without_figures_says_so() -> None:
    record = records.fleet()
    rows = {row.name: row for row in fleet(record)}
    assert set(rows) == set(record["hosts"])
    assert any(row.figures[0] == "unmeasured" for row in rows.values())
    assert fleet(records.record(n1=records.live())) == []


def test_gpus_during_the_load_are_told_or_why_not() -> None:
    seen = {"index": 0, "samples": 60, "clocks_event_reasons": 0x40,
            "sm_clock_mhz": {"min": 1200.0, "median": 1900.0, "max": 1965.0},
            "power_usage_mw": {"min": 200000.0, "median": 900000.0, "max": 1000000.0},
            "temperature_c": {"unmeasured": "3 of 60 readings: timeout"}}  # fmt: skip
    text = page(n=records.live(smoke=smoke(gpus=[seen]))).text
    for words in ("1200 / 1900 / 1965", "200 / 900 / 1000", "3 of 60 readings", "hardware thermal"):
        assert words in text, words
    why = {"unmeasured": "the GPUs are not on this machine"}
    assert "GPUs are not on this machine" in page(n=records.live(smoke=smoke(gpus=why))).text


def test_fifty_nodes_with_long_names_are_all_there() -> None:
    causes = [records.unreachable() | {"error": f"no route to {'x' * i}"} for i in range(50)]
    found = page(**{f"rack_{i:02d}_" + "x" * 60: host for i, host in enumerate(causes)})
    assert len(found.ids) == 24
    assert all(f"rack-{i:02d}-" in found.text for i in range(50))


def test_what_tuning_writes_is_what_is_shown() -> None:
    found = tuned(pages.tuning()).of
    cells = [cell for cell in found.cells if cell.status != "skipped"]
    chosen = choice.choose("throughput", "A", cells, Sweep())
    written = replace(found, knees=core_tuning.knees(cells, Sweep()), chosen=chosen)
    tuning = tuned(unstructure(written))
    assert tuning.chosen in tuning.layouts
    assert_message(tuning.evidence[0])
    assert len(all_knees(tuning).rows) == 10
    assert ("TP8 x 1, 2048 tokens, 8 seqs (C)", "C", "none") in [
        r[:3] for r in all_knees(tuning).rows
    ]
    assert {one.knee.rate for one in tuning.of.knees} >= {4.0, 8.0, 12.0, 16.0, None}


def test_what_the_smoke_test_writes_is_what_is_drawn() -> None:
    sent = [smoke_record(number) for number in range(8)]
    entries = each(Run((*sent, replace(sent[-1], chunks=(), error="status 503"))))
    found = over_time(replace(smoke_results.result(), requests=entries))
    assert len(places(found[0].svg, "mark speck each")) == 8
    assert len(places(found[0].svg, "mark cross bad")) == 1
    assert len(places(found[1].svg, "mark triangle each")) == 8
