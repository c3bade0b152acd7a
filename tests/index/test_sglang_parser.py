"""SGLang's published wheel judges what each model of the catalogue is given under each goal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from b200kit import engines
from b200kit.catalog import load
from b200kit.inventory.spec import NodeSpec
from b200kit.sizing.goals import GOALS
from tests.index import sglang_judge
from tests.unit.engines.test_catalogue_commands import asked, first, newest

pytestmark = pytest.mark.index
# What its argument modules import besides the standard library.
NEEDS = ("msgspec", "orjson", "numpy", "pydantic", "pyyaml")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with SGLang's wheel of the version that there is a list of, without torch."""
    folder = tmp_path_factory.mktemp("sglang")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
    for words in ([f"sglang=={newest('sglang').version}", "--no-deps"], [*NEEDS]):
        subprocess.run([*pip, *words], check=True, capture_output=True, timeout=600)
    return folder


def judged(library: Path, lists: list[list[str]]) -> list[tuple[str, int]]:
    """What SGLang objects to in each list, and the tokens a step of one rank."""
    done = subprocess.run(
        [sys.executable, sglang_judge.__file__],
        input=json.dumps(lists),
        env={"PYTHONPATH": str(library), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return [(said, tokens) for said, tokens in json.loads(done.stdout.splitlines()[-1])]


def words(config: dict[str, Any]) -> list[str]:
    """The argument list that stands for a configuration file, as SGLang's merger makes it."""
    found: list[str] = []
    for name, value in config.items():
        if value is True:
            found.append(f"--{name}")
        elif isinstance(value, list):
            found += [f"--{name}", *map(str, value)]
        elif value is not False:
            found += [f"--{name}", str(value)]
    return found


CASES = [(model, goal) for model in sorted(load.load().models) for goal in sorted(GOALS)]


def planned(model: str, goal: str) -> tuple[list[str], int]:
    """What SGLang is given for a model under a goal, and a rank's tokens a step by the plan."""
    spec = asked("sglang", model, goal)
    assert isinstance(spec, NodeSpec), spec
    given = words(dict(engines.get(spec.engine).config(first(spec)[1])))
    return given, spec.max_num_batched_tokens


BROKEN = {
    "misspelt": "--attn-dp-sizes",
    "no format": "--kv-cache-dtype=fp8",
    "no parser": "--reasoning-parser=deepseek_r1",
    "copies beside ranks": "--dp-size=8",
    "ranks that do not divide": "--attn-dp-size=3",
}


def test_published_sglang_takes_every_command_and_refuses_what_it_must(library: Path) -> None:
    plans = [planned(*case) for case in CASES]
    one = planned("deepseek-r1-nvfp4", "throughput")[0]
    answers = judged(library, [p[0] for p in plans] + [[*one, word] for word in BROKEN.values()])
    taken = dict(zip(CASES, answers, strict=False))
    assert taken == {case: ("", plan[1]) for case, plan in zip(CASES, plans, strict=True)}
    refused = [said for said, _ in answers[len(CASES) :]]
    assert [case for case, said in zip(BROKEN, refused, strict=True) if "error: " not in said] == []
