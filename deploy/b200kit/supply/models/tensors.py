"""The header of a safetensors file: its tensors, and whether the file is as long as they are. Pure.

8 bytes of length (little-endian), a JSON header, then the tensors one after the other, without
gaps (https://github.com/huggingface/safetensors, "Format").
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from b200kit.node.lib import documents
from b200kit.node.lib.readings import short

LENGTH = 8
# The format allows 100 MB. A tensor takes some 150 bytes, so that these are 200,000 of one file.
_MOST = 32 << 20
_MOST_DIMENSIONS, _MOST_NUMBER = 16, 1 << 62
_BITS: Mapping[str, int] = {
    "F4": 4,
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}


class HeaderError(ValueError):
    """A file that is no sound safetensors; the text says why, without the file's name."""


@dataclass(frozen=True)
class Tensor:
    """One tensor of a file."""

    shape: tuple[int, ...]
    bytes: int


def length(first: bytes, size: int) -> int:
    """How many bytes the header has, by the first eight of a file of *size* bytes."""
    count = int.from_bytes(first[:LENGTH], "little")
    if len(first) < LENGTH or not 0 < count <= min(_MOST, size - LENGTH):
        raise HeaderError("it does not begin with a safetensors header")
    return count


def tensors(header: bytes, size: int) -> dict[str, Tensor]:
    """The tensors by name; HeaderError where header and *size* of the file do not agree."""
    try:
        document = documents.parse(header, _MOST)
        rows = {name: row for name, row in document.items() if name != "__metadata__"}
        spans = {name: _span(name, row) for name, row in rows.items()}
    except HeaderError:
        raise
    except documents.Malformed as error:
        raise HeaderError(f"its header is damaged: {error}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise HeaderError("its header is damaged") from None
    at = 0
    for name, (begin, end) in sorted(spans.items(), key=lambda item: item[1]):
        if begin != at:
            raise HeaderError(f"{short(name)} begins at byte {begin} of the data, and {at} is next")
        at = end
    if LENGTH + len(header) + at != size:
        expected = LENGTH + len(header) + at
        raise HeaderError(f"it has {size} bytes, and its header describes {expected}")
    return {name: Tensor(tuple(rows[name]["shape"]), e - b) for name, (b, e) in spans.items()}


def _span(name: str, row: Mapping[str, Any]) -> tuple[int, int]:
    begin, end = row["data_offsets"]
    shape, dtype = row["shape"], row["dtype"]
    if dtype not in _BITS:
        raise HeaderError(f"{short(name)} is of a type nobody knows, {short(dtype)}")
    sizes = (begin, end, *shape)
    few = len(shape) <= _MOST_DIMENSIONS
    if not few or not all(type(n) is int and 0 <= n <= _MOST_NUMBER for n in sizes):
        raise HeaderError(f"{short(name)} has no sizes")
    if (end - begin) * 8 != math.prod(shape) * _BITS[dtype]:
        raise HeaderError(f"{short(name)} has {end - begin} bytes, not those of {shape} in {dtype}")
    return begin, end
