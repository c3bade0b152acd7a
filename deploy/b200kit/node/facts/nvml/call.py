"""One NVML call as a reading: its value, or why it gave none in NVML's own words and code."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

import pynvml as n  # type: ignore[import-untyped]

from b200kit.node.lib.readings import unmeasured

Handle = Any
Reading = Any

_ITEM = struct.Struct("=IIqqII8s")
"""nvmlFieldValue_t: field, link, two times, value type, return code, value. As bytes: in pynvml's
structures the 4,500 items of eight GPUs take 30 ms of a CPU, four times all other calls."""
VALUES = tuple(struct.Struct(f"={kind}") for kind in "dIQQqiH")
"""nvmlValue_t by the item's value type (nvmlValueType_t): double, unsigned int, unsigned long,
unsigned long long, signed long long, signed int, unsigned short."""


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


@cache
def _asked(numbers: tuple[int, ...], link: int) -> bytes:
    return b"".join(_ITEM.pack(number, link, 0, 0, 0, 0, b"") for number in numbers)


def item_values(raw: bytes) -> list[Reading]:
    """Each nvmlFieldValue_t as a number; each has its own return code."""
    return [
        _refused(kind, returned)
        if returned or kind >= len(VALUES)
        else VALUES[kind].unpack_from(value)[0]
        for _, _, _, _, kind, returned, value in _ITEM.iter_unpack(raw)
    ]


def _refused(kind: int, returned: int) -> Reading:
    if returned != n.NVML_SUCCESS:
        return unmeasured(words(n.NVMLError(returned)))
    return unmeasured(f"NVML gave a value of the unknown type {kind}")


def fields(handle: Handle, numbers: tuple[int, ...], link: int = 0) -> list[Reading]:
    """NVML fields of a GPU, or of one of its NVLinks, in one call. Raises NVMLError.

    Like pynvml's nvmlDeviceGetFieldValues, by bytes.
    """
    items = ctypes.create_string_buffer(_asked(numbers, link), _ITEM.size * len(numbers))
    function = n._nvmlGetFunctionPointer("nvmlDeviceGetFieldValues")
    n._nvmlCheckReturn(function(handle, ctypes.c_int(len(numbers)), items))
    return item_values(items.raw)


def field(handle: Handle, number: int) -> Reading:
    """One NVML field of a GPU."""
    return fields(handle, (number,))[0]


def link_fields(handle: Handle, link: int, numbers: tuple[int, ...]) -> list[Reading]:
    """NVML fields of one NVLink; the call's own error is every field's reading."""
    try:
        return fields(handle, numbers, link)
    except n.NVMLError as error:
        return [unmeasured(words(error))] * len(numbers)
