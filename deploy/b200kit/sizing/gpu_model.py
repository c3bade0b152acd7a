"""A GPU as a product."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuModel:
    """A GPU by the name of its product, and its architecture, which decides what formats it has."""

    title: str
    architecture: str
