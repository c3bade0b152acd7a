"""What the driver does not offer, told apart from what it failed to answer. Pure."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from b200kit.node.lib import tables
from b200kit.node.lib.readings import reason, unmeasured
from b200kit.node.state.not_offered import branch, not_offered

REFUSAL = re.compile(r"\((?:2|3|13|25)\)$")
"""NVML's codes where it does not know what it is asked for: invalid argument, not supported, no
such function, other structure version. A GPU that is lost (15) is lost with any driver."""


@cache
def first_branches() -> dict[str, int]:
    """Dotted key of a reading to the first driver branch that offers it."""
    table = tables.load(__package__, "since")
    return {key: int(first) for first, keys in table.items() for key in keys.values()}


def named(readings: dict[str, Any], driver: object) -> dict[str, Any]:
    """The readings of a GPU or of the system, with those named that this driver does not offer."""
    running = branch(driver) if isinstance(driver, str) else None
    if running is None:
        return readings
    for key, first in first_branches().items():
        if running < first:
            why = unmeasured(not_offered(str(driver), first))
            readings = _named(readings, key.split("."), why)
    return readings


def _named(value: Any, keys: list[str], why: dict[str, str]) -> Any:
    """A value with `why` where NVML refused what is below the keys, in each entry of a list."""
    refused = reason(value)
    if refused is not None:
        return why if not keys and REFUSAL.search(refused) else value
    if isinstance(value, list):
        return [_named(entry, keys, why) for entry in value]
    if isinstance(value, dict) and keys and keys[0] in value:
        return {**value, keys[0]: _named(value[keys[0]], keys[1:], why)}
    return value
