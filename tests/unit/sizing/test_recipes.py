"""The catalogue beside what is public: configs of the corpus, and layouts of others' recipes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from b200kit.catalog import load
from b200kit.cli.plan import parallelism
from b200kit.inventory import defaults
from b200kit.sizing import memory
from b200kit.sizing.goals import GOALS
from tests.subtests import in_subtests
from tests.unit import golden_plans
from tests.unit.sizing.test_model_corpus import parsed

_DATA = Path(__file__).parents[2] / "data" / "plan"
RECIPES: dict[str, Any] = yaml.safe_load((_DATA / "recipes.yaml").read_text(encoding="utf-8"))
CORPUS: dict[str, Any] = yaml.safe_load((_DATA / "corpus.yaml").read_text(encoding="utf-8"))
MODELS = load.load().models
FOUND = [name for name, rows in RECIPES["models"].items() if "none" not in rows]
# The corpus has the default of a class of transformers; the recipe names the published limit.
LONGER = {"qwen3-next-80b-fp8": 262144}


def test_every_model_but_the_lab_s_has_a_recipe_or_says_that_there_is_none() -> None:
    assert RECIPES["models"].keys() == MODELS.keys() - {"tiny-llama"}
    for name, rows in RECIPES["models"].items():
        if "none" in rows:
            assert rows.keys() == {"none"}, name
            assert rows["none"], name


@in_subtests("name", FOUND)
def test_layout_of_a_recipe_is_planned_or_it_is_said_why_not(name: str) -> None:
    ours = {parallelism(golden_plans.plan(MODELS[name], goal)) for goal in GOALS}
    for row in RECIPES["models"][name]:
        assert row.keys() == {"layout", "source", "ours"}, row
        assert row["source"].split()[0] in RECIPES["commits"], row
        assert (row["ours"] == "same") == (row["layout"] in ours), (row, sorted(ours))
        assert row["ours"], row


@in_subtests("name", sorted(CORPUS))
def test_sizes_are_those_of_the_published_config(name: str) -> None:
    shape, published = MODELS[name].dimensions, parsed(CORPUS[name]["file"])
    assert shape is not None
    assert shape.max_length == LONGER.get(name, published.max_length)
    plain = {"weights": "", "parts": {}, "kv_dtype": "", "max_length": 0}
    assert vars(shape) | plain == vars(published) | plain
    if CORPUS[name]["format"] == "same":
        assert shape.weights == published.weights
        whole = defaults.subject(MODELS[name]).weights.total
        assert whole == pytest.approx(memory.weights(published).total)


@in_subtests("name", [name for name in sorted(CORPUS) if CORPUS[name]["format"] == "same"])
def test_cache_is_in_the_format_that_the_checkpoint_asks_for(name: str) -> None:
    published = parsed(CORPUS[name]["file"])
    if published.kv_dtype != "auto":
        assert dict(MODELS[name].flags)["kv-cache-dtype"] == published.kv_dtype
