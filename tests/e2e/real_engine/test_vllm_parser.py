"""vLLM's own parser judges what each model of the catalogue is given under each goal."""

from __future__ import annotations

from typing import Any

import pytest

from b200kit import engines
from b200kit.catalog import load
from b200kit.inventory.spec import NodeSpec
from b200kit.sizing.goals import GOALS
from tests.e2e.driving import Outcome
from tests.e2e.real_engine.test_engine_sizes import by_engine
from tests.e2e.tools import vllm_judge
from tests.unit.engines.test_catalogue_commands import IMAGE, asked, first

pytestmark = pytest.mark.real_engine

# What the CPU build of the lab is a version of.
ENGINE = {"kind": "cuda", "name": "vllm", "version": "0.32.0", "image": IMAGE}
Command = dict[str, Any]
WRONG: tuple[Command, ...] = (
    {"max-num-seqs": "many"},
    {"kv-cache-dtype": "fp3"},
    {"no-such-flag": True},
    {"tool-call-parser": "nobody", "enable-auto-tool-choice": True},
    {"reasoning-parser": "nobody"},
)


def command(model: str, goal: str) -> Command:
    """The command line of a model's first replica, and the configuration file that it names."""
    spec = asked("vllm", model, goal, engine=ENGINE)
    assert isinstance(spec, NodeSpec), (model, goal, spec)
    kind, (_, settings) = engines.get(spec.engine), first(spec)
    config, argv = dict(kind.config(settings)), list(kind.argv(settings))
    return {"argv": argv, "path": settings.config_path, "config": config}


def judged(commands: dict[str, Command]) -> dict[str, str]:
    """What vLLM objects to, by name."""
    return {name: said["said"] for name, said in by_engine(vllm_judge, commands).items()}


def test_every_model_under_every_goal_is_taken(real: Outcome) -> None:
    commands = {
        f"{model} {goal}": command(model, goal) for model in load.load().models for goal in GOALS
    }
    found = judged(commands)
    assert found.keys() == commands.keys()
    assert {name: said for name, said in found.items() if said} == {}
    print(f"{len(found)} command lines, vLLM's own parser takes all")


def test_what_is_wrong_is_objected_to(real: Outcome) -> None:
    sound = command("gpt-oss-120b", "latency")
    bad = {str(wrong): {**sound, "config": sound["config"] | wrong} for wrong in WRONG}
    found = judged(bad)
    assert [name for name in bad if not found[name]] == []
