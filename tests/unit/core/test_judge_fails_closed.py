"""What is missing, odd or unknown is never fit, and nothing makes the judgement raise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.core.expectation import Expectation
from deploy.core.judge import Check, judge, registered, run_one
from deploy.core.state import StateView
from deploy.core.verdict import Status
from tests.unit import states

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
Path = tuple[str | int, ...]

NOT_JUDGED = {
    *[(key,) for key in ("taken_at", "took_s", "tool", "host", "cpus", "files", "disks")],
    *[(key,) for key in ("provenance", "processes", "listening", "notes")],
    ("nvml", "cuda_driver_version"),
    ("modules", "nvidia_uvm"),
    ("pci", "nics"),
    *[("pci", "gpus", 0, key) for key in ("local_cpus", "current_link_speed", "max_link_speed")],
    *[("pci", "gpus", 0, key) for key in ("current_link_width", "max_link_width")],
    *[("gpus", 0, key) for key in ("index", "name", "device_id", "module_id", "minor")],
    *[
        ("gpus", 0, key)
        for key in ("power_usage_mw", "temperature_c", "sm_clock_mhz", "mem_clock_mhz")
    ],
    *[("gpus", 0, "fabric", key) for key in ("clique_id", "cluster_uuid")],
    *[("gpus", 0, "pcie", key) for key in ("generation", "max_width", "replays")],
    ("gpus", 0, "remap", "correctable"),
    *[("gpus", 0, "links", 0, key) for key in ("recovery_success", "recovery_events")],
    ("p2p", "read", 0, 0),
    ("p2p", "write", 0, 0),
    ("p2p", "nvlink", 0, 0),
}
"""Readings no check needs: they are for the report, for layout and for drift."""


def paths(value: Any, above: Path = ()) -> Iterator[Path]:
    """Every path of a document, of lists only the first entry (and the first pair of P2P)."""
    keys: list[str | int] = list(value) if isinstance(value, dict) else []
    if isinstance(value, list) and value:
        keys = [0, 1] if above[:1] == ("p2p",) and len(above) == 3 else [0]
    for key in keys:
        yield (*above, key)
        yield from paths(value[key], (*above, key))


def is_judged(path: Path) -> bool:
    """Whether a check needs what is at the path."""
    if path[:1] == ("units",):
        return len(path) < 3 or path[-1] == "active"
    return not any(path[: len(free)] == free for free in NOT_JUDGED)


def spoiled(path: Path, remove: bool) -> dict[str, Any]:
    """The healthy state with one thing removed, or unmeasured."""
    state = states.healthy()
    place: Any = state
    for key in path[:-1]:
        place = place[key]
    if remove and isinstance(place, dict):
        del place[path[-1]]
    else:
        place[path[-1]] = {"unmeasured": "for the test"}
    return state


ALL = list(paths(states.healthy()))
JUDGED = [path for path in ALL if is_judged(path) and path != ("schema",)]


@pytest.mark.parametrize("path", JUDGED, ids=lambda p: ".".join(map(str, p)))
def test_what_is_missing_or_unmeasured_is_never_fit(path: Path) -> None:
    for remove in (True, False):
        assert judge(states.expectation(), spoiled(path, remove)).fit != "fit"


def test_the_list_of_what_no_check_needs_is_exact() -> None:
    wrong = [
        path
        for path in ALL
        if not is_judged(path) and judge(states.expectation(), spoiled(path, True)).fit != "fit"
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "document",
    [None, {}, [], "", 0, True, {"schema": "b200kit/node-state/2"}, {"unmeasured": "no route"}],
)
def test_no_state_or_one_of_an_unknown_schema_is_unmeasured(document: object) -> None:
    verdict = judge(states.expectation(), document)
    assert verdict.fit == "unmeasured"
    assert verdict.exit_status == 2


@pytest.mark.parametrize("document", [None, {}, {"schema": "b200kit/expect/9"}])
def test_no_expectation_is_unmeasured(document: object) -> None:
    assert judge(document, states.healthy()).fit == "unmeasured"


@pytest.mark.parametrize("name", sorted(states.expectation()["hardware"]["expect"]))
def test_a_threshold_that_is_missing_is_never_fit(name: str) -> None:
    expect = states.expectation()
    del expect["hardware"]["expect"][name]
    verdict = judge(expect, states.healthy())
    # The check reads gpu_count of the expectation, which the inventory may set.
    assert verdict.fit == ("fit" if name == "gpu_count" else "unmeasured")


@pytest.mark.parametrize("key", ["hardware", "driver", "gpu_count", "services"])
def test_a_part_of_the_expectation_that_is_missing_is_never_fit(key: str) -> None:
    expect = states.expectation()
    del expect[key]
    assert judge(expect, states.healthy()).fit == "unmeasured"


def test_a_check_that_raises_or_finds_nothing_is_unmeasured() -> None:
    def broken(expect: Expectation, state: StateView) -> Iterator[Any]:
        raise ZeroDivisionError("oops")

    def silent(expect: Expectation, state: StateView) -> list[Any]:
        return []

    expect, view = Expectation(states.expectation()), StateView(states.healthy())
    checks: list[Check] = [broken, silent]
    for run in checks:
        found = run_one("x", run, expect, view)
        assert [f.status for f in found] == [Status.UNMEASURED]


def test_a_judgement_by_no_checks_is_not_fit() -> None:
    assert judge(states.expectation(), states.healthy(), {}).fit == "unmeasured"


@given(expect=JSON, state=JSON)
def test_judge_never_raises_on_any_json(expect: Any, state: Any) -> None:
    assert judge(expect, state).fit == "unmeasured"


@settings(max_examples=60, deadline=None)
@given(path=st.sampled_from(ALL), value=JSON)
def test_judge_never_raises_on_a_state_with_one_odd_value(path: Path, value: Any) -> None:
    state = states.healthy()
    place: Any = state
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    verdict = judge(states.expectation(), state)
    assert not any("the check failed" in f.summary for f in verdict.findings)
    assert {f.check for f in verdict.findings} <= set(registered()) | {"document.state"}
