"""What an inventory may say of acceptance runs (docs/accept.md): how much, held to what. Pure."""

from __future__ import annotations

from typing import Literal

from b200kit.inventory.keys.types import Date, Keys, Text


class AcceptanceFloor(Keys):
    """A limit of the site's own for one metric, as `b200 acceptance baseline` writes it."""

    value: float
    """the limit"""
    unit: Text
    """of the limit, as the run's page has it"""
    holds: Literal["at least", "at most"] = "at least"
    """which side of it is good"""
    source: Text
    """where it is from, such as of how many runs"""
    date: Date
    """when that was"""
    kind: Literal["measured", "quoted", "inferred"] = "measured"
    """how it is known"""
