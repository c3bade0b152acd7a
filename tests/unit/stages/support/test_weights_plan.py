"""What is done about a model follows from what was seen, and nothing serving loses its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from b200kit.node.state import drift
from b200kit.stages import weights

UNIT = "b200-weights.service"
REPLICAS = ["vllm@0.service", "vllm@1.service"]


def state(
    model: Any = None, unit: str = "inactive", revisions: Mapping[str, bool] | None = None
) -> dict[str, Any]:
    """An observation: the model's reading, the unit's state, other revisions (name: complete)."""
    whole = {"complete": True, "bytes": 9, "proof": "record", "wrong": {}}
    listed = [
        {"model": "m", "revision": name, "complete": done, "requested": name == "requested"}
        for name, done in (revisions or {}).items()
    ]
    units = {name: {"active": "active"} for name in REPLICAS} | {UNIT: {"active": unit}}
    return {
        "weights": {"model": whole if model is None else model, "revisions": listed},
        "units": units,
        "files": {},
    }


NONE = {"complete": False, "bytes": 0, "proof": "record", "wrong": {}}


def test_whole_model_needs_nothing() -> None:
    assert weights.due_fetch(state(), UNIT, changed=False) is None
    assert weights.due_fetch(state(), UNIT, changed=True) is None


def test_missing_model_is_begun() -> None:
    assert weights.due_fetch(state(NONE), UNIT, changed=False) == weights.Begin("")


def test_part_of_a_model_is_told() -> None:
    part = NONE | {"bytes": 5_000_000_000}
    begun = weights.due_fetch(state(part), UNIT, changed=False)
    assert begun == weights.Begin(", 5.0 GB of it are there")


def test_fetch_at_work_is_left_alone_unless_another_is_asked_for() -> None:
    at_work = state(NONE, unit="active")
    assert weights.due_fetch(at_work, UNIT, changed=False) is None
    assert weights.due_fetch(at_work, UNIT, changed=True) == weights.Begin("")


def test_spoilt_model_is_fetched_again_by_name() -> None:
    spoilt = {"complete": True, "wrong": {"a.bin": "missing", "b.bin": "missing"}}
    begun = weights.due_fetch(state(spoilt), UNIT, changed=False)
    assert begun == weights.Begin(" again: a.bin is missing and 1 more", again=True)


@pytest.mark.parametrize("unread", [{"unmeasured": "no"}, {}, "x", None])
def test_what_could_not_be_read_is_not_taken_for_there(unread: Any) -> None:
    seen = {"weights": {"model": unread}} if unread is not None else {}
    assert not weights.is_whole(seen)
    assert weights.due_fetch(seen, UNIT, changed=False) == weights.Begin("")


OTHERS = {"requested": True, "newer": True, "older": True, "half": False}


def test_all_revisions_stay_unless_the_inventory_says_how_many() -> None:
    assert weights.surplus(state(revisions=OTHERS), None, REPLICAS) == []


def test_newest_others_stay_and_what_was_only_begun_goes() -> None:
    assert weights.surplus(state(revisions=OTHERS), 1, REPLICAS) == ["m/older", "m/half"]
    assert weights.surplus(state(revisions=OTHERS), 2, REPLICAS) == ["m/half"]


def test_nothing_is_removed_while_a_replica_may_still_serve_it() -> None:
    assert weights.surplus(state(NONE, revisions=OTHERS), 1, REPLICAS) == []
    stopped = state(revisions=OTHERS)
    stopped["units"]["vllm@1.service"] = {"active": "failed"}
    assert weights.surplus(stopped, 1, REPLICAS) == []
    pending = state(revisions=OTHERS)
    pending["files"][drift.pending_marker("restart:vllm@0.service")] = {"mode": "0644"}
    assert weights.surplus(pending, 1, REPLICAS) == []
