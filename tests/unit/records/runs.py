"""Measured runs as a record holds them: run conditions over a recorded state and result."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.lib.documents import structure, unstructure
from b200kit.records import conditions
from b200kit.records.conditions import RunConditions
from b200kit.records.entries import Acceptance, AnyEntry, MeasuredRun, Record, digest, run_entry
from b200kit.records.statistics import RunFigures
from tests.unit import smoke_results, states

BASE = {"ttft": 41.0, "itl": 9.8, "tpot": 10.1, "e2el": 660.0}
"""Run medians in ms, the shape of a 70B model's; figures are made up."""


def sources(**changes: Any) -> dict[str, Any]:
    """All that run conditions are built from, complete but for what nobody collects yet."""
    state, result = states.healthy(), smoke_results.result()
    state["notes"]["warm"] = {str(n): {"warm": True, "rounds": [{}] * 6} for n in range(4)}
    layout = [
        {"gpus": [2 * n, 2 * n + 1], "numa_nodes": [n // 2], "cpus": f"{n * 28}-{n * 28 + 27}",
         "tp": 2, "pp": 1, "dp": 1, "ep": False}
        for n in range(4)
    ]  # fmt: skip
    asked = {
        "model": "llama-3.3-70b-fp8",
        "model_revision": "0123456789abcdef" * 4,
        "quantization": "fp8",
        "kv_dtype": "auto",
        "engine_id": "feedc0ffee12",
        "libraries": {"torch": "2.13.0"},
        "config": {"max-num-seqs": 8, "tensor-parallel-size": 2},
        "argv": ["serve", "--config", "/etc/vllm/replica-0.yaml"],
        "environment": {"VLLM_NO_USAGE_STATS": "1"},
        "gateway": {"bind": "127.0.0.1", "port": 8000},
    }
    return {
        "node": "n01",
        "requested": asked,
        "state": state,
        "smoke": unstructure(result),
        "layout": layout,
        "observed": conditions.observed(state, result, asked["libraries"]),
        **changes,
    }


@cache
def _complete() -> RunConditions:
    return conditions.build(sources())


def run_conditions(**fields: object) -> RunConditions:
    """Complete run conditions with some fields changed, by their names with `__` for the dot."""
    changed = {name.replace("__", "."): value for name, value in fields.items()}
    return RunConditions({**copy.deepcopy(_complete()).fields, **changed})


def run(number: int, medians: Mapping[str, float] = BASE, **fields: object) -> MeasuredRun:
    """One run's entry, its line not written yet; *number* gives it its day and its salt."""
    at = f"2026-{10 + number // 28:02d}-{1 + number % 28:02d}T09:00:00Z"
    own = run_conditions(run__taken_at=at, run__cache_salt=f"smoke-{number}", **fields)
    result = smoke_results.result(smoke_results.medians(medians))
    return run_entry(own, result, f"run-{number}")


def figured(run: MeasuredRun, **changes: object) -> MeasuredRun:
    """A run with other figures: by their dotted paths with `__` for the dot."""
    found = unstructure(run.smoke)
    for path, value in changes.items():
        smoke_results.put(found, path.replace("__", "."), value)
    return replace(run, smoke=structure(SmokeResult, found))


def accepted(
    runs: Iterable[MeasuredRun], why: str = "burn-in", at: str = "2026-11-01T00:00:00Z"
) -> Acceptance:
    """The word of "ops" that these runs of n01 are how it should be."""
    return Acceptance("n01", at, "ops", why, tuple(run.id for run in runs))


def kept(entries: Iterable[AnyEntry]) -> Record:
    """The record that these entries make."""
    new = (replace(one, id="") for one in entries)
    return Record(tuple(replace(one, id=digest(unstructure(one))[:10]) for one in new))


def day(chance: random.Random, cv: float, shift: float = 0.0) -> dict[str, float]:
    """Medians of one run: log-normal with this run-to-run CV, four fifths shared by the metrics."""
    together = chance.gauss(0, 0.8 * cv)
    return {
        metric: value * (1 + shift) * math.exp(together + chance.gauss(0, 0.6 * cv))
        for metric, value in BASE.items()
    }


def days(seed: int, count: int, cv: float, shift: float = 0.0) -> list[dict[str, float]]:
    """Medians of several runs with a fixed seed."""
    chance = random.Random(seed)
    return [day(chance, cv, shift) for _ in range(count)]


def dated(medians: Iterable[Mapping[str, float]], of_one_day: bool = False) -> list[RunFigures]:
    """Runs with these medians, one a day unless all are of one."""
    return [RunFigures("day" if of_one_day else f"day {i}", m) for i, m in enumerate(medians)]
