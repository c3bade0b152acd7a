"""Which layout a tuning is for: the best by its goal, and those that are as good. Pure.

    latency                the least median E2E at the first rate, of layouts whose requests meet
                           the objective there
    balanced, throughput   the highest goodput knee; what came too late counts nowhere

Two layouts differ when their intervals do not overlap and they differ by more than 5 %, the
margin within which runs count as the same (docs/measure.md): an interval is of one run's requests
and does not know how far two runs of one layout are apart. Of those that do not differ the
simplest is taken: the configured one, then fewer GPUs a replica, then smaller batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from b200kit.node.client.formulas import PathFigures
from b200kit.records.goodput_knee import Sweep
from b200kit.records.tuning import ChoiceEvidence, Layout, LayoutChoice, TuningCell, knees
from b200kit.tuning.candidates import CONFIGURED

MARGIN = 0.05


@dataclass(frozen=True)
class LayoutResult:
    """What a layout came to: a figure, its interval, where it is from."""

    layout: Layout
    value: float
    low: float
    high: float
    words: str


def choose(goal: str, workload: str, cells: Sequence[TuningCell], sweep: Sweep) -> LayoutChoice:
    """The layout for a goal, by the cells of one load."""
    mine = [cell for cell in cells if cell.workload == workload]
    latency = goal == "latency"
    found = _by_latency(mine, sweep) if latency else _by_knee(mine, sweep)
    if not found:
        condition = f"at {sweep.first:g}/s" if latency else "at any rate"
        why = f"no layout was measured that met the objective {condition}: nothing is chosen"
        return LayoutChoice(None, why)
    ranked = sorted(found, key=lambda one: one.value if latency else -one.value)
    alike = [one for one in ranked if _alike(one, ranked[0])]
    taken = min(alike, key=_complexity)
    return LayoutChoice(
        taken.layout,
        _why(goal, taken, ranked, alike),
        tuple(str(one.layout) for one in alike if one is not taken),
        tuple(ChoiceEvidence(one.layout, one.words) for one in ranked),
    )


def _by_latency(cells: Sequence[TuningCell], sweep: Sweep) -> list[LayoutResult]:
    found = (
        _latency(cell, cell.ours.main)
        for cell in cells
        if cell.ours and cell.rate == sweep.first and cell.point.verdict(sweep.share) == "good"
    )
    # A rate that was repeated counts once, by its last cell.
    return list({result.layout: result for result in found if result}.values())


def _latency(cell: TuningCell, main: PathFigures) -> LayoutResult | None:
    if (value := main.e2el.p50_ms) is None:
        return None
    low, high = (value if end is None else end for end in main.e2el.p50_ci95_ms or (None, None))
    count = main.completed
    words = f"E2E P50 {value:.1f} ms ({low:.1f} to {high:.1f}, n={count}) at {cell.rate:g}/s"
    return LayoutResult(cell.layout, value, low, high, words)


def _by_knee(cells: Sequence[TuningCell], sweep: Sweep) -> list[LayoutResult]:
    found = []
    for one in knees(cells, sweep):
        knee = one.knee
        if knee.rate is None:
            continue
        # What bounds it from above: the first rate that is surely bad, or nothing.
        high = knee.high or float("inf")
        low = knee.low or 0.0
        upper = "no bad rate for sure" if knee.high is None else f"{knee.high:g}/s"
        words = f"knee {knee.rate:g}/s (surely good to {low:g}/s, bad from {upper}): {knee.why}"
        found.append(LayoutResult(one.layout, knee.rate, low, high, words))
    return found


def _alike(one: LayoutResult, best: LayoutResult) -> bool:
    """Whether nobody can tell it from the best."""
    if one is best:
        return True
    near = abs(one.value / best.value - 1) <= MARGIN if best.value else one.value == best.value
    return near or (one.low <= best.high and best.low <= one.high)


def _complexity(one: LayoutResult) -> tuple[Any, ...]:
    layout = one.layout
    return (
        CONFIGURED not in layout.names,
        layout.gpus,
        layout.expert_parallel,
        layout.max_num_batched_tokens,
        layout.max_num_seqs,
    )


def _why(
    goal: str, taken: LayoutResult, ranked: Sequence[LayoutResult], alike: Sequence[LayoutResult]
) -> str:
    text = f"goal {goal}: {taken.layout}: {taken.words}"
    others = [one for one in alike if one is not taken]
    if others:
        names = ", ".join(f"{one.layout} at {one.value:g}" for one in others)
        simple = "the configured one" if CONFIGURED in taken.layout.names else "the simplest"
        text += f". No measurable difference to {names}: {simple} is taken"
    behind = next((one for one in ranked if one not in alike), None)
    if behind:
        text += f". Next is {behind.layout}: {behind.words}"
    if len(ranked) == 1:
        text += ". It is the only one that could be compared"
    return text
