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


def judged(library: Path, lists: list[list[str]]) -> list[str]:
    """What SGLang's parser objects to in each list."""
    done = subprocess.run(
        [sys.executable, sglang_judge.__file__],
        input=json.dumps(lists),
        env={"PYTHONPATH": str(library), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


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


def command(model: str, goal: str) -> list[str]:
    """What SGLang is given for a model under a goal."""
    spec = asked("sglang", model, goal)
    assert isinstance(spec, NodeSpec), spec
    return words(dict(engines.get(spec.engine).config(first(spec)[1])))


def test_parser_takes_every_command_and_refuses_what_it_must(library: Path) -> None:
    broken = {
        "misspelt": "--attn-dp-sizes",
        "no format": "--kv-cache-dtype=fp8",
        "no parser": "--reasoning-parser=deepseek_r1",
    }
    one = command("deepseek-r1-nvfp4", "throughput")
    lists = [command(*case) for case in CASES] + [[*one, word] for word in broken.values()]
    said = judged(library, lists)
    taken = dict(zip(CASES, said, strict=False))
    assert {case: text for case, text in taken.items() if text} == {}
    assert len([text for text in said[len(CASES) :] if "error: " in text]) == len(broken)
