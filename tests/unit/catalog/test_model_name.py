"""A model by any of its names, and what may have been meant."""

from __future__ import annotations

import pytest

from b200kit import cli
from b200kit.catalog import load, model_name

NAME, HUB = "llama-3.3-70b-fp8", "nvidia/Llama-3.3-70B-Instruct-FP8"


@pytest.mark.parametrize("word", [NAME, HUB, HUB.upper(), f"{HUB}@{'0' * 40}"])
def test_catalogue_name_and_hub_id_are_one_model(word: str) -> None:
    assert model_name.known(word, load.load().models) == NAME


@pytest.mark.parametrize("word", ["llama-3.3-70b", "", f"{HUB}-X", "LLAMA-3.3-70B-FP8"])
def test_what_is_nearly_a_name_is_none(word: str) -> None:
    assert model_name.known(word, load.load().models) is None


def test_models_are_found_by_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models", "3.3-70b"]) == 0
    out = capsys.readouterr().out
    assert [HUB in out, out.count(" fewer "), out.count("GB")] == [True, 2, 3]
    assert cli.main(["models", "lama-3.3-70b-fp8x"]) == 1
    assert NAME in capsys.readouterr().err
