"""An observation as a node sent it: read strictly, or refused in one line. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from b200kit.node.lib.documents import LARGE, Malformed, parse
from b200kit.node.state.plausible import plausible
from b200kit.node.state.view import SCHEMA

MOST_VALUES = 100_000
"""Most values of an observation; one of eight GPUs has a few thousand."""


class NoObservation(ValueError):
    """What came is no observation, in one line."""


def command(ask: Mapping[str, Any]) -> str:
    """The node program's arguments that ask for one."""
    return f"observe --ask {base64.b64encode(json.dumps(ask).encode()).decode()}"


def parsed(raw: str | bytes) -> dict[str, Any]:
    """The NodeState document in what the node program printed."""
    try:
        state = parse(raw, LARGE)
    except Malformed:
        raise NoObservation("the observation is not JSON") from None
    if not isinstance(state, dict):
        raise NoObservation("the observation is not a document")
    if state.get("schema") != SCHEMA:
        # Every section would be missing, and everything on the node would be done again.
        raise NoObservation(f"the observation is of schema {state.get('schema')!r}, not {SCHEMA}")
    if not _has_at_most(state, MOST_VALUES):
        # Short as text, and hours of judging.
        raise NoObservation(f"the observation has more than {MOST_VALUES} values")
    return plausible(state)


def _has_at_most(document: Any, count: int) -> bool:
    left = [document]
    while left and count >= 0:
        value = left.pop()
        inner = value.values() if isinstance(value, dict) else value
        if isinstance(value, dict | list):
            count -= len(value)
            left.extend(inner)
    return count >= 0
