"""What each goal of an inventory means, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """What a goal means: batch limits, and down to how many weights a GPU TP is worth its cost.

    *floor_gb* is inferred: below it the all-reduces of all layers take as long as reading the
    weights; *doublings* is how far TP may go beyond what memory requires. *width_source*: who
    measured such widths of mixtures on B200, where somebody did.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    floor_gb: float
    doublings: int
    batch_source: str
    width_source: str = ""

    @property
    def sources(self) -> str:
        """All of them."""
        return "; ".join(filter(None, (self.batch_source, self.width_source)))


_INFERENCEX = (
    "InferenceX keeps TP2 to TP4 for most mixtures on B200 at few requests, TP8 for the largest "
    "(SemiAnalysisAI/InferenceX@843c6254, quoted)"
)
_RECIPE = "after the recipe for 70B on B200 (quoted)"
GOALS: Mapping[str, Goal] = {
    "latency": Goal(8, 2048, 10.0, 3, f"{_RECIPE}; small steps keep streams even", _INFERENCEX),
    "balanced": Goal(128, 8192, 20.0, 1, _RECIPE),
    "throughput": Goal(256, 16384, float("inf"), 0, "16384 is vLLM's own default, 256 inferred"),
}
