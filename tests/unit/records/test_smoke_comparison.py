"""A new result against the node's own accepted baseline: slower fails, and none is said to be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.client.smoke_result import BaselineComparison, SmokeResult
from b200kit.node.lib.documents import to_bytes
from b200kit.records import entries, provenance
from b200kit.records.conditions import RunConditions
from b200kit.records.statistics import METRICS
from b200kit.records.store import Records
from b200kit.run.node import Node, StageFailed
from b200kit.store.database import SITE
from tests.fake.machine import Machine
from tests.messages import assert_message, raises_message
from tests.unit import smoke_results
from tests.unit.nodes import look, make, settled
from tests.unit.records import runs
from tests.unit.store.test_database import rewrite

WARM = {n: {"warm": True, "rounds": [{}] * 4} for n in ("0", "1")}
Settled = tuple[Node, Machine]


@pytest.fixture
def node(tmp_path: Path) -> Settled:
    """A node that serves, whose next result is the test's, and an empty record."""
    found, machine = settled(tmp_path, smoke_always=True)
    machine.readings = {"notes": {"warm": WARM}}
    return found, machine


def measure(node: Settled, result: SmokeResult) -> BaselineComparison:
    """Run the stage; the node program says *result*. What it came to beside the baseline."""
    found, machine = node
    machine.answers = {"node.pyz measure": (True, to_bytes(result).decode())}
    look(found)
    make(found, "smoke")
    return compared(node)


def compared(node: Settled) -> BaselineComparison:
    """What the last one came to."""
    assert node[0].record.smoke
    assert node[0].record.smoke.comparison
    return node[0].record.smoke.comparison


def result(medians: Mapping[str, float | None] = runs.BASE, **changes: Any) -> SmokeResult:
    """A result that passes, with these medians."""
    return smoke_results.result({**smoke_results.medians(medians), **changes})


def accepted(node: Settled, count: int = 10) -> None:
    """That many accepted runs of this node's load, 1 % apart."""
    found, _ = node
    measure(node, result())
    run_conditions = provenance.run_conditions(found)
    for number, day in enumerate(runs.days(7, count, 0.01)):
        at = f"2026-10-{1 + number:02d}T09:00:00Z"
        changed = {"run.cache_salt": f"salt-{number}", "run.taken_at": at}
        own = RunConditions({**run_conditions.fields, **changed})
        Records().append("n01", entries.run_entry(own, result(day), f"run-{number}"))
    known = Records().read("n01").runs
    entry = runs.accepted(known)
    Records().append("n01", entry)


def shifted(by: float, metric: str = "tpot") -> dict[str, float]:
    """The usual medians with one of them slower by this share."""
    return runs.BASE | {metric: runs.BASE[metric] * (1 + by)}


def test_without_a_baseline_nothing_fails_and_that_is_said(
    node: Settled, capsys: pytest.CaptureFixture[str]
) -> None:
    assert measure(node, result(shifted(9.0))).outcome == "none"
    assert_message(capsys.readouterr().err)


def test_a_run_like_the_accepted_ones_passes(node: Settled) -> None:
    accepted(node)
    found = measure(node, result(shifted(0.01)))
    assert (found.outcome, found.baseline and found.baseline.by) == ("usual", "ops")
    assert all(one.inside for one in found.metrics.values())


@pytest.mark.one_in(4)
@pytest.mark.parametrize("metric", METRICS)
def test_a_slower_run_fails_and_says_by_what_whose_baseline_it_is(
    node: Settled, metric: str
) -> None:
    accepted(node)
    with raises_message(StageFailed):
        measure(node, result(shifted(0.12, metric)))
    kept = json.loads(node[1].text("/var/lib/b200kit/smoke.json"))
    assert kept["verdict"] == "fail"  # so that the next run measures again


def test_a_faster_run_passes(node: Settled) -> None:
    accepted(node)
    measure(node, result(shifted(-0.3)))


def test_another_load_is_held_against_nothing(node: Settled) -> None:
    accepted(node)
    other = result(shifted(9.0), **{"load.rate": 12.0})
    assert "of another load" in measure(node, other).why


def test_a_result_without_its_conditions_is_not_taken_for_usual(node: Settled) -> None:
    accepted(node)
    with raises_message(StageFailed):
        measure(node, result(runs.BASE, **{"conditions.engine": None}))


def test_a_result_that_lacks_a_metric_is_not_taken_for_usual(node: Settled) -> None:
    accepted(node)
    with raises_message(StageFailed):
        measure(node, result({**runs.BASE, "itl": None}))


def test_a_record_that_cannot_be_read_is_not_taken_for_none(node: Settled) -> None:
    SITE.path.mkdir(parents=True)
    with pytest.raises(StageFailed, match="unable to open"):
        measure(node, result())


def test_a_starved_clients_times_are_held_against_nothing(node: Settled) -> None:
    accepted(node)
    with raises_message(StageFailed):
        measure(node, result(shifted(9.0), verdict="invalid", reasons=["client starved"]))
    assert compared(node).outcome == "none"


def test_an_acceptance_that_somebody_changed_is_not_taken_for_none(node: Settled) -> None:
    accepted(node)
    rewrite(SITE.path, "UPDATE body SET text = replace(text, 'burn-in', 'burn-out')")
    with pytest.raises(StageFailed, match="about n01, was changed after it was written"):
        measure(node, result())
