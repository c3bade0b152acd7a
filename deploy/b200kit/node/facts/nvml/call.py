"""One NVML call as a reading: its value, or why it gave none in NVML's own words and code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml as n  # type: ignore[import-untyped]

from b200kit.node.lib.readings import unmeasured

Handle = Any
Reading = Any

MEMBERS = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
"""Member of nvmlValue_t by the item's value type (nvmlValueType_t)."""


def words(error: Exception) -> str:
    """An NVML error as "Driver Not Loaded (9)": its text and its code."""
    code = getattr(error, "value", None)
    return f"{error} ({code})" if code is not None else f"{type(error).__name__}: {error}"


def reading(call: Callable[[], Any]) -> Reading:
    """What a call returns, or why it returned nothing. Some of pynvml's texts are bytes."""
    try:
        value = call()
        return value.decode(errors="replace") if isinstance(value, bytes) else value
    except (n.NVMLError, OSError, ValueError, TypeError, AttributeError, IndexError) as error:
        return unmeasured(words(error))


def item_value(item: Any) -> Reading:
    """One item of nvmlDeviceGetFieldValues as a number; each item has its own return code."""
    if item.nvmlReturn != n.NVML_SUCCESS:
        return unmeasured(words(n.NVMLError(item.nvmlReturn)))
    if item.valueType not in MEMBERS:
        return unmeasured(f"NVML gave a value of the unknown type {item.valueType}")
    return getattr(item.value, MEMBERS[item.valueType])


def field(handle: Handle, number: int) -> Reading:
    """One NVML field of a GPU."""
    return item_value(n.nvmlDeviceGetFieldValues(handle, [number])[0])


def link_fields(handle: Handle, link: int, numbers: list[int]) -> list[Reading]:
    """NVML fields of one NVLink, in one call; the call's own error is every field's reading."""
    try:
        items = n.nvmlDeviceGetFieldValues(handle, [(number, link) for number in numbers])
    except n.NVMLError as error:
        return [unmeasured(words(error))] * len(numbers)
    return [item_value(item) for item in items]
