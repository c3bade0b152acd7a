"""A picture with its caption and the table with the same figures."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Table:
    """Head and rows as text; `summary` is what the fold that holds it is called."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    summary: str = "the same in figures"


@dataclass(frozen=True, slots=True)
class Figure:
    """One picture as SVG, its caption, the meaning of its markers as (shape, words)."""

    svg: str
    caption: str
    keys: tuple[tuple[str, str], ...] = field(default=())
    table: Table | None = None
