"""Wrong answers that follow a GPU, or stay with a replica: told apart for every layout."""

from __future__ import annotations

from collections.abc import Callable

from b200kit.node.placement import layout as layouts
from b200kit.node.placement.layout import Replica
from b200kit.tuning import wrong_gpu as wrong_gpu
from b200kit.tuning.wrong_gpu import RotationRound
from tests.messages import assert_message
from tests.subtests import in_subtests

LAYOUTS = [(8, 1), (4, 2), (2, 4), (2, 1), (3, 2)]


def layout(replicas: int, width: int) -> list[Replica]:
    """So many replicas of so many GPUs."""
    each = [range(n * width, (n + 1) * width) for n in range(replicas)]
    return [
        Replica(n, tuple(gpus), tuple(f"GPU-{g}" for g in gpus), (0,), str(n), 8000 + n)
        for n, gpus in enumerate(each)
    ]


def rounds(replicas: int, width: int, fault: Callable[[Replica], bool]) -> list[RotationRound]:
    """What all rounds show of replicas that are wrong where the fault says so."""
    found = []
    for by in range(wrong_gpu.rounds_needed(width)):
        turned = layouts.rotated(layout(replicas, width), by)
        gpus = {r.replica: tuple(zip(r.gpus, r.uuids, strict=True)) for r in turned}
        found.append(RotationRound(gpus, {r.replica: "wrong" if fault(r) else "" for r in turned}))
    return found


@in_subtests(("replicas", "width"), LAYOUTS)
def test_any_gpu_is_named_wherever_it_is(replicas: int, width: int) -> None:
    for bad in range(replicas * width):
        found = rounds(replicas, width, lambda r, bad=bad: bad in r.gpus)  # type: ignore[misc]
        assert (wrong_gpu.followed(found), wrong_gpu.stayed(found) or None) == (
            {(bad, f"GPU-{bad}")},
            None,
        ), bad


@in_subtests(("replicas", "width"), LAYOUTS)
def test_fault_of_a_replica_follows_no_gpu(replicas: int, width: int) -> None:
    for bad in range(replicas):
        found = rounds(replicas, width, lambda r, bad=bad: r.replica == bad)  # type: ignore[misc]
        assert (wrong_gpu.followed(found), wrong_gpu.stayed(found)) == (set(), {bad})


def test_each_outcome_has_its_words() -> None:
    once = rounds(4, 2, lambda _: False)
    once[1] = RotationRound(once[1].gpus, {0: "wrong", 1: "", 2: "", 3: ""})
    assert_message(
        wrong_gpu.words(rounds(4, 2, lambda r: 5 in r.gpus)),
        wrong_gpu.words(rounds(4, 2, lambda r: r.replica == 2)),
        wrong_gpu.words(rounds(4, 2, lambda r: bool({1, 5} & {*r.gpus}))),
        wrong_gpu.words(once),
    )
    assert wrong_gpu.words(rounds(4, 2, lambda _: False)) == ""


def test_rotation_moves_gpus_and_nothing_else() -> None:
    before = layout(4, 2)
    after = layouts.rotated(before, 1)
    assert [r.gpus for r in after] == [(1, 2), (3, 4), (5, 6), (7, 0)]
    assert [r.uuids[0] for r in after] == ["GPU-1", "GPU-3", "GPU-5", "GPU-7"]
    assert [(r.replica, r.cpus, r.port) for r in after] == [
        (r.replica, r.cpus, r.port) for r in before
    ]
    assert layouts.rotated(before, 0) == layouts.rotated(before, 8) == before
