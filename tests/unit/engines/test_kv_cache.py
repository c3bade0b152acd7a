"""One setting for the KV cache's format: each engine is told it, and the plan counts with it."""

from __future__ import annotations

import pytest

from b200kit.engines import KINDS, kv_cache
from b200kit.inventory import shape
from b200kit.inventory.spec import NodeSpec
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.engines.test_catalogue_commands import NAMES, asked, flags_of

MODEL = "llama-3.3-70b-fp8"
WORDS = {
    ("vllm", "fp8"): "fp8",
    ("vllm", "nvfp4"): "nvfp4",
    ("sglang", "fp8"): "fp8_e4m3",
    ("sglang", "fp8_e5m2"): "fp8_e5m2",
    ("sglang", "bfloat16"): "bfloat16",
    ("trtllm", "fp8"): "fp8",
}


def tokens(name: str, **changes: object) -> int:
    """KV tokens of a replica, as planned."""
    spec = asked(name, MODEL, "balanced", **changes)
    assert isinstance(spec, NodeSpec), spec
    found = shape.shape_of(spec).kv_tokens
    assert found
    return found


@in_subtests(("case", "word"), WORDS.items())
def test_engine_is_told_the_format_in_its_own_word(case: tuple[str, str], word: str) -> None:
    name, wanted = case
    flags = flags_of(name, MODEL, "balanced", kv_cache_dtype=wanted)
    assert flags[KINDS[name].kv_flag] == word


@pytest.mark.parametrize("name", NAMES)
def test_format_of_the_catalogue_holds_for_every_engine(name: str) -> None:
    kind = KINDS[name]
    assert kv_cache.stated(kind, flags_of(name, MODEL, "balanced")) == "fp8"
    assert kind.kv_flag not in flags_of(name, "llama-3.3-70b-bf16", "balanced")


@pytest.mark.parametrize("name", NAMES)
def test_plan_counts_with_the_format_that_the_engine_gets(name: str) -> None:
    half = tokens(name)
    assert tokens(name, kv_cache_dtype="auto", tensor_parallel=2) == pytest.approx(
        half / 2, rel=0.01
    )
    assert kv_cache.rendered(KINDS[name], "auto") == {}


def test_flag_of_the_engine_s_own_wins_and_is_counted() -> None:
    engine = {"kind": "cuda", "name": "sglang", "version": "0.5.23", "flags": {}}
    wide = asked("sglang", MODEL, "balanced", tensor_parallel=2, engine=engine | {
        "image": f"registry.example.internal/engine@sha256:{'0' * 64}",
        "flags": {"kv-cache-dtype": "bfloat16"},
    })  # fmt: skip
    assert isinstance(wide, NodeSpec), wide
    assert shape.shape_of(wide).kv_tokens == pytest.approx(tokens("sglang") / 2, rel=0.01)


@in_subtests(("name", "wanted"), [("trtllm", "nvfp4"), ("trtllm", "bfloat16"), ("vllm", "int3")])
def test_format_that_an_engine_cannot_keep_is_refused_in_one_line(name: str, wanted: str) -> None:
    found = asked(name, MODEL, "balanced", kv_cache_dtype=wanted)
    assert isinstance(found, dict)
    assert_message(*(f"{key}: {message}" for key, message in found.items()))


def test_format_that_nobody_can_count_is_refused() -> None:
    flags = {"kv-cache-dtype": "fp4_mx_block16"}
    engine = {"kind": "cuda", "name": "sglang", "version": "0.5.23", "flags": flags}
    image = f"registry.example.internal/engine@sha256:{'0' * 64}"
    found = asked("sglang", MODEL, "balanced", engine=engine | {"image": image})
    assert isinstance(found, dict)
    assert "fp4_mx_block16" in found["engine.flags"]


@in_subtests(
    ("name", "flags", "drafted"),
    [
        ("vllm", {"speculative-config": '{"method":"mtp"}'}, 1),
        ("vllm", {"speculative-config": '{"method": "mtp", "num_speculative_tokens": 3}'}, 3),
        ("vllm", {"speculative-config": '{"method":"eagle3","model":"x"}'}, 0),
        ("sglang", {"speculative-algorithm": "NEXTN", "speculative-num-steps": 2}, 2),
        ("sglang", {"speculative-algorithm": "EAGLE", "speculative-draft-model-path": "x"}, 0),
        ("sglang", {"speculative-algorithm": "EAGLE3"}, 0),
        ("trtllm", {"speculative_config.decoding_type": "MTP"}, 1),
        ("trtllm", {"speculative_config.decoding_type": "Eagle3"}, 0),
        ("trtllm", {}, 0),
    ],
)
def test_tokens_of_the_checkpoint_s_own_drafts_are_counted(
    name: str, flags: dict[str, object], drafted: int
) -> None:
    assert KINDS[name].drafted(flags) == drafted


@in_subtests(
    ("name", "flags"),
    [
        ("sglang", {"speculative-algorithm": "EAGLE", "speculative-num-steps": "three"}),
        ("trtllm", {"speculative_config.decoding_type": "MTP",
                    "speculative_config.num_nextn_predict_layers": "x"}),
    ],
)  # fmt: skip
def test_number_of_drafts_that_is_none_is_refused_as_the_flag_it_is(
    name: str, flags: dict[str, str]
) -> None:
    version = {"sglang": "0.5.23", "trtllm": "1.2.1"}[name]
    image = f"registry.example.internal/engine@sha256:{'0' * 64}"
    engine = {"kind": "cuda", "name": name, "version": version, "flags": flags, "image": image}
    found = asked(name, "deepseek-r1-nvfp4", "balanced", engine=engine)
    assert isinstance(found, dict)
    assert list(found) == [f"engine.flags.{list(flags)[-1]}"]
