"""Headers of safetensors files that small files make large: refused in one line, in no time."""

from __future__ import annotations

import json

import pytest

from b200kit.supply.models.checkpoint import LENGTH, HeaderError
from b200kit.supply.models.checkpoint import header_length as length
from b200kit.supply.models.checkpoint import header_tensors as tensors
from tests.subtests import in_subtests


def row(shape: list[object], size: int, dtype: str = "U8") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}


def test_sound_header_gives_its_tensors() -> None:
    header = json.dumps({"__metadata__": {"format": "pt"}, "w": row([2, 3], 6)}).encode()
    assert tensors(header, LENGTH + len(header) + 6)["w"].shape == (2, 3)


@in_subtests(
    "header",
    [
        {"w": row([3] * 1_000_000, 1)},
        {"w": row([10**4000], 1)},
        {"w": row([10**299] * 4, 1)},
        {"w": row([True], 1)},
        {"w": row([1.0], 1)},
        {"w": row([-1, -1], 1)},
        {"x" * 100_000: row([2], 1)},
        {"w": row([1], 1, "X" * 100_000)},
        {"w": 1},
        [],
    ],
)
def test_header_of_no_sizes_is_refused_in_one_short_line(header: object) -> None:
    raw = json.dumps(header).encode()
    with pytest.raises(HeaderError) as refused:
        tensors(raw, LENGTH + len(raw) + 1)
    assert len(str(refused.value)) < 300
    assert "\n" not in str(refused.value)


@in_subtests(
    "raw",
    [
        b'{"w": {"dtype": "U8"}, "w": {"dtype": "U8"}}',
        b"[" * 100_000,
        b'{"w": NaN}',
        b'{"__metadata__": [' + b"[]," * 100_000 + b"[]]}",
        b'{"__metadata__": [' + b"{}," * 100_000 + b"[]]}",
    ],
)
def test_header_that_is_no_sound_json_is_refused(raw: bytes) -> None:
    with pytest.raises(HeaderError):
        tensors(raw, LENGTH + len(raw))


def test_header_longer_than_any_is_not_even_read() -> None:
    with pytest.raises(HeaderError):
        length((100_000_000).to_bytes(LENGTH, "little"), 1 << 40)
