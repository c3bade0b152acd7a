"""What each goal of an inventory means, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """What a goal means: batch limits, and down to how many weights a GPU TP is worth its cost.

    *floor_gb* is inferred: below it the all-reduces of all layers take as long as reading the
    weights; *doublings* is how far TP may go beyond what memory requires.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    floor_gb: float
    doublings: int
    batch_source: str


_RECIPE = "after the recipe for 70B on B200 (quoted)"
GOALS: Mapping[str, Goal] = {
    "latency": Goal(8, 2048, 10.0, 3, f"{_RECIPE}; small steps keep streams even"),
    "balanced": Goal(128, 8192, 20.0, 1, _RECIPE),
    "throughput": Goal(256, 16384, float("inf"), 0, "16384 is vLLM's own default, 256 inferred"),
}
