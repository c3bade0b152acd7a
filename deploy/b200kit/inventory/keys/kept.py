"""How much of its runs the controller keeps: reports, and archives of evidence. Pure."""

from __future__ import annotations

from pydantic import Field

from b200kit.inventory.keys.types import Keys


class Kept(Keys):
    """What of `reports/` and of `evidence/`, each by itself, stays after a run."""

    days: int = Field(90, ge=1, le=36_500)
    """older ones are removed"""
    gib: float = Field(10.0, ge=0.01, le=1_000_000)
    """the oldest are removed until the others have at most so many GiB"""
    least: int = Field(20, ge=1, le=1_000_000)
    """so many of the newest stay, however old and large: runs, or archives of one node"""
