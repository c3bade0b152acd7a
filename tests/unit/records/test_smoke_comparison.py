"""A new result against the node's own accepted baseline: slower fails, and none is said to be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from b200kit.records import entries, provenance, store
from b200kit.records.conditions import RunConditions
from b200kit.records.metrics import METRICS
from b200kit.run import jsonl
from b200kit.run.node import Node, StageFailed
from tests.fake.machine import Machine
from tests.messages import assert_message, raises_message
from tests.unit.nodes import look, make, settled
from tests.unit.records import runs

WARM = {n: {"warm": True, "rounds": [{}] * 4} for n in ("0", "1")}
Settled = tuple[Node, Machine]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settled:
    """A node that serves, whose next result is the test's, and an empty record."""
    monkeypatch.delenv(store.VARIABLE, raising=False)
    found, machine = settled(tmp_path, smoke_always=True)
    machine.readings = {"notes": {"warm": WARM}}
    return found, machine


def measure(node: Settled, result: dict[str, Any]) -> None:
    """Run the stage; the node program says *result*."""
    found, machine = node
    machine.answers = {"node.pyz measure": (True, json.dumps(result))}
    look(found)
    make(found, "smoke")


def result(medians: dict[str, float] = runs.BASE, **changes: Any) -> dict[str, Any]:
    """A result that passes, with these medians."""
    return runs.smoke() | {f"p50_{m}_ms": medians[m] for m in METRICS} | changes


def accepted(node: Settled, count: int = 10) -> None:
    """That many accepted runs of this node's load, 1 % apart."""
    found, _ = node
    measure(node, result())
    run_conditions, folder = provenance.run_conditions(found), store.directory(found.spec.records)
    for number, day in enumerate(runs.days(7, count, 0.01)):
        at = f"2026-10-{1 + number:02d}T09:00:00Z"
        changed = {"run.cache_salt": f"salt-{number}", "run.taken_at": at}
        own = RunConditions({**run_conditions.fields, **changed})
        store.append(folder, "n01", entries.run_entry(own, result(day), f"run-{number}"))
    known = store.read(folder, "n01").runs
    entry = runs.accepted(known)
    store.append(folder, "n01", entry)


def shifted(by: float, metric: str = "tpot") -> dict[str, float]:
    """The usual medians with one of them slower by this share."""
    return runs.BASE | {metric: runs.BASE[metric] * (1 + by)}


def test_without_a_baseline_nothing_fails_and_that_is_said(
    node: Settled, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(node, result(shifted(9.0)))
    assert node[0].record.smoke is not None
    assert node[0].record.smoke["comparison"]["outcome"] == "none"
    assert_message(capsys.readouterr().err)


def test_a_run_like_the_accepted_ones_passes(node: Settled) -> None:
    accepted(node)
    measure(node, result(shifted(0.01)))
    compared = (node[0].record.smoke or {})["comparison"]
    assert (compared["outcome"], compared["baseline"]["by"]) == ("usual", "ops")
    assert all(one["inside"] for one in compared["metrics"].values())


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


def replica(path: str, by: float) -> dict[str, Any]:
    """A result like the others but for one replica's tokens."""
    found = result()
    found["paths"][path]["p50_tpot_ms"] *= by
    return found


def test_replica_that_is_slower_than_its_own_record_fails_by_its_name(node: Settled) -> None:
    accepted(node)
    measure(node, replica("direct-1", 1.04))
    with raises_message(StageFailed):
        measure(node, replica("direct-1", 1.12))
    compared = (node[0].record.smoke or {})["comparison"]["metrics"]
    assert not compared["direct-1 tpot"]["inside"]
    assert compared["direct-0 tpot"]["value"] < 1


def test_replica_that_the_baseline_does_not_know_is_said_not_to_be_compared(node: Settled) -> None:
    accepted(node)
    more = result()
    more["paths"]["direct-2"] = more["paths"]["direct-1"]
    measure(node, more)
    assert_message((node[0].record.smoke or {})["comparison"]["why"])


def test_a_faster_run_passes(node: Settled) -> None:
    accepted(node)
    measure(node, result(shifted(-0.3)))


def test_another_load_is_held_against_nothing(node: Settled) -> None:
    accepted(node)
    other = result(shifted(9.0)) | {"request_rate": 12.0}
    measure(node, other)
    assert "of another load" in (node[0].record.smoke or {})["comparison"]["why"]


def test_a_result_without_its_conditions_is_not_taken_for_usual(node: Settled) -> None:
    accepted(node)
    other = result()
    del other["conditions"]["sampling"]
    with raises_message(StageFailed):
        measure(node, other)


def test_a_result_that_lacks_a_metric_is_not_taken_for_usual(node: Settled) -> None:
    accepted(node)
    with raises_message(StageFailed):
        measure(node, result(p50_itl_ms=None))


def test_a_record_that_cannot_be_read_is_not_taken_for_none(node: Settled) -> None:
    path = jsonl.path_of(store.directory(node[0].spec.records), "n01")
    path.mkdir(parents=True)
    with pytest.raises(StageFailed, match="Is a directory"):
        measure(node, result())


def test_a_starved_clients_times_are_held_against_nothing(node: Settled) -> None:
    accepted(node)
    with raises_message(StageFailed):
        measure(node, result(shifted(9.0), verdict="invalid", reasons=["client starved"]))
    assert (node[0].record.smoke or {})["comparison"]["outcome"] == "none"


def test_an_acceptance_that_somebody_changed_is_not_taken_for_none(node: Settled) -> None:
    accepted(node)
    path = jsonl.path_of(store.directory(node[0].spec.records), "n01")
    path.write_text(path.read_text().replace("burn-in", "burn-out"))
    with raises_message(StageFailed):
        measure(node, result())
