"""Sizes of a hundred public config.json, compared with figures of others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from b200kit.sizing import memory, model_config
from b200kit.sizing.dimensions import Dimensions, ModelError
from b200kit.sizing.families import FAMILIES
from b200kit.sizing.memory import GIB
from tests.subtests import in_subtests
from tests.unit.sizing.model_configs import FOLDER, stored

CORPUS = {path.stem: stored(path.stem) for path in sorted(FOLDER.glob("*.json"))}
MEASURED = [name for name, each in CORPUS.items() if "truth" in each]
REFUSED = [name for name, each in CORPUS.items() if "unmeasured" in each]
# Makers round the totals in names and cards to one or two digits: 117 of 120, 31.6 of 30.
ROUNDED = 0.06
# For active weights some count the embedding and the head and others do not, and all round.
ACTIVE = 0.10


def parsed(name: str) -> Dimensions:
    """The dimensions of one of them."""
    return model_config.parse(CORPUS[name]["config"], CORPUS[name].get("beside"))


def truth(name: str) -> dict[str, dict[str, Any]]:
    """What others say of it."""
    stated: dict[str, dict[str, Any]] = CORPUS[name]["truth"]
    return stated


def test_corpus_is_large_and_each_figure_has_a_source() -> None:
    assert len(CORPUS) >= 80
    assert sorted(MEASURED + REFUSED) == sorted(CORPUS)
    for name in CORPUS:
        assert CORPUS[name]["source"]
    for name in MEASURED:
        assert {"parameters", "weights", "kv_bytes_a_token", "max_length"} <= truth(name).keys()
        for figure in truth(name).values():
            assert figure["source"].split(":")[0] in ("quoted", "computed", "inferred")


def test_each_architecture_of_the_table_has_a_model_in_the_corpus() -> None:
    configs = [CORPUS[name]["config"] for name in MEASURED]
    texts = [config | config.get("text_config", {}) for config in configs]
    assert {text["model_type"] for text in texts} == FAMILIES.keys()


@in_subtests("name", MEASURED)
def test_weights_are_counted_within_two_percent(name: str) -> None:
    stated, have = truth(name), parsed(name).parameters.total
    assert have == pytest.approx(stated["parameters"]["value"], rel=0.02)
    if "published" in stated:
        assert have == pytest.approx(stated["published"]["value"], rel=ROUNDED)


@in_subtests("name", [name for name in MEASURED if "active" in truth(name)])
def test_active_weights_are_those_that_the_maker_names(name: str) -> None:
    shape, published = parsed(name), truth(name)["active"]["value"]
    least = shape.active - shape.parameters.embedding - shape.parameters.head
    assert least * (1 - ACTIVE) <= published <= shape.active * (1 + ACTIVE)


@in_subtests("name", MEASURED)
def test_format_of_most_weights_is_found_where_it_is_written(name: str) -> None:
    assert parsed(name).weights == truth(name)["weights"]["value"]


@in_subtests("name", MEASURED)
def test_cache_of_one_more_token_of_a_long_sequence(name: str) -> None:
    stated, shape = truth(name)["kv_bytes_a_token"], parsed(name)
    longer, long = (
        memory.sequence_bytes(shape, tokens, dtype=stated["dtype"]) for tokens in (2 * 10**9, 10**9)
    )
    assert (longer - long) / 10**9 == pytest.approx(stated["value"], rel=1e-5)


@in_subtests("name", MEASURED)
def test_longest_context_is_read(name: str) -> None:
    assert parsed(name).max_length == truth(name)["max_length"]["value"]


@in_subtests("name", REFUSED)
def test_architecture_that_is_not_known_is_not_measured(name: str) -> None:
    with pytest.raises(ModelError, match=CORPUS[name]["unmeasured"]):
        parsed(name)


ODD: tuple[Any, ...] = (None, "re:(", [], {}, -1, 1.5, True, [[]], [{}], {"a": 1}, 10**9)


def spoilt(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The same with one value, at any depth, that does not belong there."""
    for key, value in document.items():
        yield from (document | {key: odd} for odd in ODD)
        if isinstance(value, dict) and len(value) < 50:
            yield from (document | {key: inner} for inner in spoilt(value))


def refusal(config: dict[str, Any], beside: dict[str, Any] | None) -> str:
    """Why it is not sized; nothing where it is."""
    try:
        memory.weights(model_config.parse(config, beside))
    except ModelError as error:
        return str(error)
    return ""


@in_subtests("name", MEASURED[::6], one_in=4)
def test_spoilt_config_is_sized_or_refused_in_one_line(name: str) -> None:
    beside = CORPUS[name].get("beside")
    refused = [refusal(config, beside) for config in spoilt(CORPUS[name]["config"])]
    assert any(refused)
    assert not any("\n" in line for line in refused)


# The table of models that were sized wrong before their families were known.
@in_subtests(
    ("name", "billions"),
    [
        ("meta-llama--Llama-4-Maverick-17B-128E-Instruct", 400.7),
        ("nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", 120.7),
        ("moonshotai--Kimi-K3", 2779.5),
        ("nvidia--Nemotron-H-56B-Base-8K", 56.3),
    ],
)
def test_models_that_were_sized_wrong_are_not(name: str, billions: float) -> None:
    assert parsed(name).parameters.total / 1e9 == pytest.approx(billions, rel=0.001)


@in_subtests(
    ("name", "gigabytes"),
    [
        # The recipe's least memory of either checkpoint is 960 GB; eight B200s have 1,440.
        ("deepseek-ai--DeepSeek-V4-Pro", 852),
        ("nvidia--DeepSeek-V4-Pro-NVFP4", 901),
        ("deepseek-ai--DeepSeek-V4-Flash", 156),
        ("nvidia--DeepSeek-V3.1-NVFP4", 420),
        ("nvidia--Qwen3-235B-A22B-NVFP4", 134),
        ("nvidia--MiniMax-M3-NVFP4", 252),
    ],
)
def test_checkpoints_are_counted_in_their_own_formats(name: str, gigabytes: float) -> None:
    assert memory.weights(parsed(name)).total / 1e9 == pytest.approx(gigabytes, abs=1)


def test_pool_of_deepseek_v4_is_that_of_real_logs() -> None:
    shape = parsed("deepseek-ai--DeepSeek-V4-Flash")
    # vLLM 0.25 on eight B200s, TP8, 0.95 of the memory (vllm-project/recipes#762): 20.43 requests
    # of 1,048,576 tokens, 8192 in flight.
    left = 0.95 * 178.35 * GIB - 6 * GIB - memory.weights(shape).total / 8
    assert left / memory.sequence_bytes(shape, 1_048_576, chunk=8192) == pytest.approx(
        20.43, rel=0.05
    )
    # vLLM 0.22 on GH200, 16384 in flight (vllm-project/vllm#44376): GiB that one request needs.
    for tokens, gib in ((30_000, 6.66), (13_528, 5.44)):
        assert memory.sequence_bytes(shape, tokens, chunk=16384) / GIB == pytest.approx(
            gib, rel=0.05
        )


@in_subtests(
    ("name", "layers"),
    [
        ("deepseek-ai--DeepSeek-V3.2", 61),
        ("zai-org--GLM-5", 78),
        # Of 78 layers of GLM-5.2 those with an indexer of their own.
        ("zai-org--GLM-5.2", 21),
    ],
)
def test_indexers_keep_132_bytes_a_token_and_layer(name: str, layers: int) -> None:
    shape = parsed(name)
    whole = memory.sequence_bytes(shape, 1000, dtype="fp8")
    assert whole == 1000 * ((shape.layers * 576) + layers * 132)
