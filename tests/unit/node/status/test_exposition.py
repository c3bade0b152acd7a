"""The text format: what Prometheus reads, and names that it would refuse."""

from __future__ import annotations

import pytest

from b200kit.node.status.exposition import MetricFamily, text


def test_a_family_is_its_help_its_type_and_a_line_a_series() -> None:
    family = MetricFamily("b200_x", "What\nit \\ is.", (({"a": 'q"\\\n'}, 1.0), ({}, 0.25)))
    assert text([family]).splitlines() == [
        "# HELP b200_x What\\nit \\\\ is.",
        "# TYPE b200_x gauge",
        'b200_x{a="q\\"\\\\\\n"} 1',
        "b200_x 0.25",
    ]


def test_a_timestamp_keeps_its_seconds() -> None:
    assert "b200_x 1764079200\n" in text([MetricFamily("b200_x", "x", (({}, 1764079200.0),))])


def test_without_a_series_nothing_is_said() -> None:
    assert "b200_x" not in text([MetricFamily("b200_x", "x", ())])


@pytest.mark.parametrize(
    "family", [MetricFamily("1x", "x", ()), MetricFamily("x", "x", (({"a-b": 1}, 1.0),))]
)
def test_names_that_prometheus_refuses_are_refused(family: MetricFamily) -> None:
    with pytest.raises(ValueError, match="is no name of"):
        family.lines()
