"""Smoke tests as they are kept: recorded ones (tests/data/diagnosis), with what a test changes."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.lib.documents import structure

RECORDED = Path(__file__).parents[1] / "data" / "diagnosis"


@cache
def _recorded(name: str) -> dict[str, Any]:
    return dict(json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8")))


def document(changes: Mapping[str, object] | None = None, name: str = "healthy") -> dict[str, Any]:
    """A recorded one as JSON, with other values at some dotted paths."""
    found = copy.deepcopy(_recorded(name))
    for path, value in (changes or {}).items():
        put(found, path, value)
    return found


def result(changes: Mapping[str, object] | None = None, name: str = "healthy") -> SmokeResult:
    """The same as the class."""
    return structure(SmokeResult, document(changes, name))


def medians(values: Mapping[str, float | None], path: str = "main") -> dict[str, object]:
    """Changes: other medians of a path, by metric."""
    return {f"{path}.{metric}.p50_ms": value for metric, value in values.items()}


def put(found: dict[str, Any], path: str, value: object) -> None:
    """Set what stands at a dotted path."""
    *above, last = path.split(".")
    for key in above:
        found = found[key]
    found[last] = value
