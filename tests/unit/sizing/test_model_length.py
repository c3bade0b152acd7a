"""The longest context of a config.json is what vLLM 0.32.0 makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from b200kit.sizing import model_config
from b200kit.sizing.dimensions import ModelError
from tests.subtests import in_subtests
from tests.unit.sizing.test_weight_blocks import DENSE

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}


@in_subtests(
    ("changes", "longest"),
    [
        ({}, 32768),
        # YaRN's factor is in max_position_embeddings, or nowhere.
        ({"rope_scaling": YARN}, 32768),
        ({"rope_scaling": YARN, "max_position_embeddings": 131072}, 131072),
        ({"rope_scaling": {"type": "yarn", "factor": 40}}, 32768),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 32768),
        ({"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}, 32768),
        ({"rope_scaling": {"type": "linear", "factor": 4.0}}, 131072),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2}}, 65536),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2.0}}, 65536),
        (
            {
                "rope_parameters": {
                    "full_attention": {"rope_type": "linear", "factor": 8.0},
                    "sliding_attention": {"rope_type": "default"},
                }
            },
            262144,
        ),
        ({"rope_scaling": {"type": "linear", "factor": None}}, 32768),
        ({"rope_scaling": None}, 32768),
        ({"max_sequence_length": 8192}, 8192),
        ({"max_seq_len": 65536}, 32768),
        ({"model_max_length": 131072}, 131072),
        ({"max_position_embeddings": None, "n_positions": 2048}, 2048),
    ],
)
def test_longest_context(changes: dict[str, Any], longest: int) -> None:
    assert model_config.parse(DENSE | changes).max_length == longest


@in_subtests(
    "rope",
    [
        *({"type": "linear", "factor": by} for by in (1e308, 1e-300, 10**200, -2, True, "2", [2])),
        {"type": ["linear"], "factor": 2},
    ],
)
def test_length_that_no_context_has_is_refused(rope: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        model_config.parse(DENSE | {"rope_scaling": rope})
