"""Comparisons as they are kept, and what they say of a node."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from b200kit.catalog import load
from b200kit.inventory import precision
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.node.checks.serving.precision import validated
from b200kit.node.lib.documents import unstructure
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Status
from b200kit.node.state.view import StateView
from b200kit.quality import kept
from b200kit.quality.kept import limits
from b200kit.records.entries import Divergence, QualityComparison
from b200kit.run.node import Node
from b200kit.store.database import SITE
from tests.lab.supply import models
from tests.unit import specs
from tests.unit.store.test_database import rewrite

NEAR = Divergence(128, 4000, (0.004, 0.005, 0.006), (0.02, 0.03, 0.04))
FAR = replace(NEAR, flips=(0.2, 0.3, 0.4))


def spec(model: str, **changes: Any) -> NodeSpec:
    """A node that serves a model of the catalogue."""
    found = parse(
        specs.data(model=model, engine=specs.data()["engine"] | {"kind": "cuda"}, **changes),
        load.load(),
    )
    assert isinstance(found, NodeSpec), found
    return found


@pytest.mark.parametrize(
    ("model", "changes", "names"),
    [
        ("llama-3.3-70b-bf16", {}, ()),
        ("llama-3.3-70b-bf16", {"kv_cache_dtype": "fp8"}, ("fp8 KV cache",)),
        ("llama-3.3-70b-bf16", {"kv_cache_dtype": "bfloat16"}, ()),
        ("llama-3.3-70b-nvfp4", {}, ("nvfp4 weights", "fp8 KV cache")),
        ("llama-3.3-70b-nvfp4", {"kv_cache_dtype": "auto"}, ("nvfp4 weights",)),
        ("gpt-oss-120b", {}, ()),
        ("qwen3-32b-fp8", {}, ("fp8-block weights",)),
    ],
)
def test_what_is_in_fewer_bits_than_published(
    model: str, changes: dict[str, Any], names: tuple[str, ...]
) -> None:
    assert precision.lowered(spec(model, **changes)) == names


def test_flags_that_lower_are_seen() -> None:
    engine = specs.data()["engine"] | {"kind": "cuda", "flags": {"quantization": "fp8"}}
    found = parse(specs.data(model="llama-3.3-70b-bf16", engine=engine), load.load())
    assert isinstance(found, NodeSpec)
    assert precision.lowered(found) == ("weights quantised when loaded (fp8)",)
    one = spec("llama-3.3-70b-bf16", replica_flags={"1": {"kv-cache-dtype": "fp8"}})
    assert precision.lowered(one) == ("fp8 KV cache",)


def test_config_in_other_formats_than_the_original_s_is_no_original(tmp_path: Path) -> None:
    config = models.config() | {"quantization_config": {"quant_method": "fp8"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    known = load.with_site_model(load.load(), "gpt-oss-120b", str(tmp_path / "config.json"))
    assert known.models["gpt-oss-120b"].original is False
    assert load.load().models["gpt-oss-120b"].original is True


def test_every_model_of_the_catalogue_has_limits() -> None:
    for name, model in load.load().models.items():
        if model.dimensions:
            assert set(limits([f"{model.dimensions.weights} weights"])) == {"kl_nats", "flips"}, (
                name
            )


def test_fewest_bits_decide_the_limits() -> None:
    wide, narrow = limits(["fp8 weights"]), limits(["fp8 KV cache", "nvfp4 weights"])
    assert wide["kl_nats"] < narrow["kl_nats"]
    assert limits(["what nobody knows"]) == narrow


@pytest.fixture
def node() -> Node:
    """A node that is served in fewer bits."""
    return Node("n01", spec("llama-3.3-70b-fp8"))


def recorded(node: Node, compared: Divergence, **changes: Any) -> None:
    """Keep a comparison of the node's model."""
    known, at = replace(kept.key(node.spec), **changes), f"2026-11-2{len(changes)}T00:00:00Z"
    entry = QualityComparison("n09", at, known, compared, NEAR, {}, {}, "texts", 64, "0.32.0")
    assert kept.KEPT.append(kept.name_of(kept.key(node.spec)), entry)


def asked(node: Node) -> dict[str, Any]:
    """The part of the expectation."""
    found: dict[str, Any] = kept.expected(node)["precision"]
    return found


def test_without_a_comparison_there_is_a_doubt(node: Node) -> None:
    assert "compared" not in asked(node)
    assert asked(node)["doubt"]


def test_newest_comparison_of_any_node_counts(node: Node) -> None:
    recorded(node, NEAR)
    assert asked(node)["compared"] == unstructure(NEAR)
    recorded(node, FAR)
    assert asked(node)["compared"] == unstructure(FAR)


@pytest.mark.parametrize(
    "other", [{"revision": "f" * 64}, {"engine": "sglang"}, {"lowered": ("fp8 weights",)}]
)
def test_comparison_of_something_else_counts_for_nothing(node: Node, other: dict[str, Any]) -> None:
    recorded(node, NEAR, **other)
    assert "compared" not in asked(node)


def test_changed_record_is_a_doubt(node: Node) -> None:
    recorded(node, FAR)
    rewrite(SITE.path, "UPDATE body SET text = replace(text, '0.3', '0.0')")
    assert "compared" not in asked(node)
    assert "was changed" in asked(node)["doubt"]


def test_model_as_published_needs_no_record() -> None:
    node = Node("n01", spec("gpt-oss-120b"))
    assert asked(node)["lowered"] == []
    assert "doubt" not in asked(node)


def test_refusal_has_the_line_of_a_waiver_that_an_inventory_takes(node: Node) -> None:
    [refused] = validated(Expectation(kept.expected(node)), StateView({}))
    key, _, line = refused.remedy[refused.remedy.index("waivers") :].partition(" = ")
    given = [{**one, "until": "2026-12-15"} for one in ast.literal_eval(line)]
    [waiver] = spec(node.spec.model, **{key: given}).waivers
    assert waiver.check == "precision.validated"


def test_verdict_of_the_command_is_the_check_s(node: Node) -> None:
    known = kept.key(node.spec)
    assert kept.judged(known, NEAR).status is Status.PASS
    assert kept.judged(known, FAR).status is Status.FAIL
