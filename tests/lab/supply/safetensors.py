"""The safetensors format, written with the standard library.

8 bytes little-endian header length, a JSON header padded with spaces to 8 bytes, then the tensors'
raw bytes (https://github.com/huggingface/safetensors, "Format").
"""

from __future__ import annotations

import json
import random
import struct
from array import array
from collections.abc import Mapping
from pathlib import Path

ITEM_BYTES = 2


def bf16(values: list[float]) -> bytes:
    """Return floats as little-endian bfloat16: the upper half of a float32, rounded to nearest."""
    words = array("I")
    words.frombytes(struct.pack(f"<{len(values)}f", *values))
    return struct.pack(f"<{len(words)}H", *((word + 0x8000 >> 16) & 0xFFFF for word in words))


def normal(count: int, deviation: float, seed: int) -> bytes:
    """Return ``count`` bf16 samples of a normal distribution, the same ones for the same seed."""
    generator = random.Random(seed)
    return bf16([generator.gauss(0.0, deviation) for _ in range(count)])


def constant(count: int, value: float) -> bytes:
    """Return one bf16 value ``count`` times."""
    return bf16([value]) * count


def write_safetensors(path: Path, tensors: Mapping[str, tuple[tuple[int, ...], bytes]]) -> None:
    """Write bf16 tensors: name to (shape, raw bytes).

    Raises `ValueError` if a tensor's size does not fit its shape.
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (shape, data) in tensors.items():
        expected = ITEM_BYTES
        for length in shape:
            expected *= length
        if expected != len(data):
            raise ValueError(f"{name}: {len(data)} bytes do not fit shape {shape}")
        offsets = [offset, offset + expected]
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": offsets}
        offset += expected
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, data in tensors.values():
            file.write(data)
