"""A picture with its caption and the table with the same figures."""

from __future__ import annotations

from typing import NamedTuple

Keys = tuple[tuple[str, str], ...]
"""Markers by their shape, and what they mean."""


class Table(NamedTuple):
    """Head and rows as text; `summary` is what the fold that holds it is called."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    summary: str = "the same in figures"


class Figure(NamedTuple):
    """One picture as SVG, its caption and its legend."""

    svg: str
    caption: str
    keys: Keys = ()
