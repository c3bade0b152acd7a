"""The limits of b200kit/catalog/quality.yaml for what is served in fewer bits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from b200kit import catalog
from b200kit.catalog import shipped

_FILE = Path(catalog.__file__).with_name("quality.yaml")
_FEW = 4


def limits(lowered: Sequence[str]) -> dict[str, float]:
    """Metric to its limit: those of the format with the fewest bits."""
    table = _table()
    bits = min((int(table["bits"].get(name.split()[0], _FEW)) for name in lowered), default=8)
    return {name: float(value) for name, value in table["limits"][bits].items()}


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = shipped.read(_FILE)
    return table
