"""What an engine is given beyond sizes, by goal and model: drafts, parsers, intervals. Pure.

The levers are data (b200kit/catalog/levers/ENGINE.yaml), in the engine's own words, each with its
source. None was measured by this project.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from b200kit.engines.contract import Scalar


@dataclass(frozen=True)
class Served:
    """What is served, and for what: *goal* is None where an inventory gives its own figures.

    *spread* says whether attention is data parallel; None before that is decided.
    """

    name: str
    family: str = ""
    weights: str = ""
    goal: str | None = None
    spread: bool | None = None


@dataclass(frozen=True)
class Lever:
    """Some flags, and when they are given; a condition that is empty or None always holds.

    *kind* is measured, quoted or inferred, by whom *source* says.
    """

    name: str
    flags: Mapping[str, Scalar]
    kind: str
    date: str
    source: str
    goals: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    spread: bool | None = field(default=None)

    def applies(self, served: Served) -> bool:
        """Whether these flags are given to what is served."""
        named = {served.name, served.family}
        return (
            (not self.goals or served.goal in self.goals)
            and (not (self.models or self.families) or bool(named & {*self.models, *self.families}))
            and (not self.weights or served.weights in self.weights)
            and (self.spread is None or self.spread == served.spread)
        )


def flags(levers: Iterable[Lever], served: Served) -> dict[str, Scalar]:
    """The flags of all levers that apply; a later one stands above an earlier."""
    return {
        name: value
        for lever in levers
        if lever.applies(served)
        for name, value in lever.flags.items()
    }
