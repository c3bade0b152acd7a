"""Records with holes: whatever is missing or odd, a report comes out and nothing is invented."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from b200kit.report.charts.chart import linear
from b200kit.report.charts.latency_charts import distributions
from b200kit.report.document import duration, milliseconds, show
from b200kit.report.html.page import render
from tests.subtests import in_subtests
from tests.unit import smoke_results
from tests.unit.report import pages, records
from tests.unit.report.pages import terminal, write
from tests.unit.report.test_report_timeline import document, slow

_ODD: list[Any] = [
    None,
    {},
    [],
    "",
    "x",
    -1,
    2.5,
    True,
    [[]],
    {"unmeasured": "timed out"},
    {"value": None},
]
_FEW = settings(suppress_health_check=list(HealthCheck))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=12,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every member of a JSON value."""
    keys = list(value) if isinstance(value, dict) else range(min(len(value), 3))
    found = [(*path, key) for key in keys]
    return found + [
        deeper
        for place in found
        if isinstance(value[place[-1]], dict | list)
        for deeper in places(value[place[-1]], place)
    ]


def measured() -> records.Json:
    """Return a HostRecord of what is drawn, and of little else."""
    tuned, against = pages.tuning(), document(slow(10))
    for key, most in (("cells", 8), ("knees", 2)):
        tuned[key] = tuned[key][:most]
    against["timeline"]["runs"] = against["timeline"]["runs"][-3:]
    smoke = records.smoke(arrays=False) | {"requests": pages.requests(12, failed=(3,))}
    return records.live(tuning=tuned, record=against, reprovision=pages.reprovisioned(),
                        smoke=smoke, state=None, verdict=None, stages=[], layout=[])  # fmt: skip


@cache
def base() -> records.Json:
    """Return the record that is spoiled: never itself, a copy of it."""
    return records.record(n1=records.live(), n2=records.red(), n3=measured())


def _place() -> st.SearchStrategy[tuple[Any, ...]]:
    """A member of that record; of the host with all that is drawn as often as of all."""
    found = places(base())
    drawn = [place for place in found if place[:2] == ("hosts", "n3")]
    return st.sampled_from(found) | st.sampled_from(drawn)


def put(record: Any, path: tuple[Any, ...], change: Any) -> None:
    """Remove the member at `path`, or replace it; a path that is gone is left alone."""
    *way, last = path
    for key in way:
        try:
            record = record[key]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(record, dict) and change == "remove":
        record.pop(last, None)
    elif isinstance(record, dict) or (isinstance(record, list) and last in range(len(record))):
        record[last] = change


@_FEW
@given(st.lists(st.tuples(st.deferred(_place), st.sampled_from(["remove", *_ODD])), max_size=12))
def test_any_key_may_be_missing_or_odd(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    record = copy.deepcopy(base())
    for path, change in changes:
        put(record, path, copy.deepcopy(change))
    for entry in ("b200.py", "check.py"):
        text = terminal({**record, "entry": entry})
        assert max(map(len, text.splitlines())) <= 100
    assert render(record).rstrip().endswith("</html>")


@_FEW
@given(JSON)
def test_any_json_at_all_gives_a_report(value: Any) -> None:
    for record in (value, {"hosts": value}, {"hosts": {"n": value}}):
        assert "exit" in terminal(record)
        assert "</html>" in render(record)


@pytest.mark.parametrize("value", [{}, {"hosts": None}, {"hosts": {"n": {}}}, {"run": None}])
def test_an_empty_record_is_written_and_owes_exit_one(tmp_path: Path, value: Any) -> None:
    page = write(value, tmp_path)
    assert json.loads((page.parent / "summary.json").read_text())["exit_code"] == 1


def nested(depth: int) -> Any:
    """Lists within lists."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@in_subtests(
    ("part", "key", "value"),
    [
        ("smoke", "ttfts_ms", [1.7e308, 1.0, 2.0]),
        ("smoke", "itls_ms", [1.7e308, 2.0, 3.0]),
        ("smoke", "requests", nested(5000)),
        ("state", "pci", nested(5000)),
        ("state", "taken_at", 10**5000),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str) else "",
)
def test_one_odd_value_of_one_host_costs_no_other_host_its_report(
    part: str, key: str, value: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    odd = records.live()
    odd[part][key] = value
    record = records.record(n1=odd, n2=records.red())
    page = write(record, tmp_path_factory.mktemp("reports"))
    text = page.read_text()
    assert records.lost_link_finding()["summary"] in text
    assert f"{part} cannot be shown" in text
    folder = page.parent
    alone = write(records.record(n2=records.red()), tmp_path_factory.mktemp("alone")).parent
    assert (folder / "n2.json.gz").read_bytes() == (alone / "n2.json.gz").read_bytes()
    summary = json.loads((folder / "summary.json").read_text())
    assert [host["outcome"] for host in summary["hosts"].values()] == ["live", "red"]
    assert "n2  RED" in terminal(record)


def test_missing_readings_are_never_blank_nor_zero() -> None:
    host = records.live()
    del host["smoke"]["main"]["completed"]
    for text in (terminal(records.record(n=host)), render(records.record(n=host))):
        assert "unmeasured: main.completed is missing" in text


def test_spans_and_figures_read_well() -> None:
    assert [duration(s) for s in (0.9, 59.99, 108, 192, 7500, 100000)] == [
        "0.9 s", "60.0 s", "1 m 48 s", "3 m 12 s", "2 h 5 m", "1 d 3 h",
    ]  # fmt: skip
    assert [milliseconds(v) for v in (0.42, 9.83, 41.24, 1873.4)] == [
        "0.42",
        "9.83",
        "41.2",
        "1873",
    ]
    assert show(False) == "no"


@in_subtests("top", [0.0, 1e-9, 0.3, 58.0, 1000.0, 123456.7, 1e12])
def test_ticks_are_few_and_reach_the_top(top: float) -> None:
    ticks = [tick for tick, _ in linear(0.0, top, "ms").ticks]
    assert 2 <= len(ticks) <= 8
    assert ticks[-1] >= top * 0.999


def test_one_sample_has_no_distribution() -> None:
    assert distributions(smoke_results.result({"ttfts_ms": [5.0]})) == []
