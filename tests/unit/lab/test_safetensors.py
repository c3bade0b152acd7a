"""The weights file, checked byte by byte against the format's description."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tests.lab.supply.models import (
    HIDDEN,
    VOCABULARY,
    WITHOUT_TEXT,
    config,
    shapes,
    weights,
)
from tests.lab.supply.safetensors import (
    ITEM_BYTES,
    bf16,
    constant,
    write_safetensors,
)

Tensor = tuple[tuple[int, ...], bytes]


def test_known_values_round_to_their_bfloat16() -> None:
    assert struct.unpack("<4H", bf16([0.0, 1.0, -2.0, 3.140625])) == (0, 0x3F80, 0xC000, 0x4049)


def test_the_file_is_length_header_and_data(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {"a": ((2, 3), constant(6, 1.0)), "b": ((4,), constant(4, 0.0))})
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    assert length % 8 == 0
    assert header["a"] == {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}
    assert header["b"] == {"dtype": "BF16", "shape": [4], "data_offsets": [12, 20]}
    assert content[8 + length :] == b"\x80\x3f" * 6 + b"\0" * 8


@pytest.fixture(scope="module")
def tensors() -> dict[str, Tensor]:
    """The tiny model's."""
    return weights()


def test_the_tiny_model_has_every_tensor_its_config_names(tensors: dict[str, Tensor]) -> None:
    layers = config()["num_hidden_layers"]
    assert len(shapes()) == 3 + 9 * layers
    assert shapes()["lm_head.weight"] == (VOCABULARY, config()["hidden_size"])
    size = sum(len(data) for _, data in tensors.values())
    assert 1_500_000 < size < 2_500_000


def test_the_tiny_model_never_prefers_a_token_without_text(tensors: dict[str, Tensor]) -> None:
    _, head = tensors["lm_head.weight"]
    silent = WITHOUT_TEXT * HIDDEN * ITEM_BYTES
    assert head[:silent] == bytes(silent)
    assert any(head[silent : silent + HIDDEN * ITEM_BYTES])
