"""What warm-up and watchdog need to know of a node, as keys of serving.json, and their files."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from b200kit import engines
from b200kit.inventory import shape
from b200kit.inventory.keys.parts import Watchdog
from b200kit.node.state import warmup_features
from b200kit.node.state.drift import File
from b200kit.node.state.mend import MendRules
from b200kit.node.state.serving import WarmPlan, WatchdogPlan
from b200kit.node.state.watch import HealthRules
from b200kit.node.state.watchdog import WatchdogRules
from b200kit.run.node import Node

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

_SYSTEM_PROMPTS = "/etc/b200kit/system-prompts"
# Two rounds in a row may miss each other now and then on a machine that has other work.
_ROUNDS = 40


def files(node: Node) -> list[File]:
    """The production system prompts, which are nobody's business but root's."""
    return [
        File(path, Path(source).read_bytes(), 0o600)
        for path, source in zip(_prompt_paths(node), node.spec.system_prompts, strict=True)
    ]


def _prompt_paths(node: Node) -> list[str]:
    return [f"{_SYSTEM_PROMPTS}/{number}.txt" for number in range(len(node.spec.system_prompts))]


def warm(node: Node) -> WarmPlan:
    """The key `warm`."""
    spec = node.spec
    return WarmPlan(
        timeout_s=spec.warm_deadline_s,
        tolerance=spec.warm_tolerance,
        max_rounds=_ROUNDS,
        features=tuple(warmup_features.features(shape.flags_of(spec), spec.features_off)),
        system_prompts=tuple(_prompt_paths(node)),
    )


def watchdog(node: Node) -> WatchdogPlan:
    """The key `watchdog`: the rules, and how the engine names what shows progress."""
    asked, metrics = node.spec.watchdog, engines.get(node.spec.engine).metrics
    progress = ("generation_tokens", "prompt_tokens")
    return WatchdogPlan(
        rules=_taken(WatchdogRules, asked),
        health_rules=_taken(HealthRules, asked),
        takes_out=tuple(asked.takes_out),
        mend_rules=_taken(MendRules, asked),
        waiting=metrics.get("waiting", ""),
        gaps=metrics.get("inter_token_latency", ""),
        progress=tuple(metrics[name] for name in progress if name in metrics),
    )


def _taken(kind: type[T], asked: Watchdog) -> T:
    """The rules of one kind, whose fields are named as the inventory's keys are."""
    return kind(**{one.name: getattr(asked, one.name) for one in fields(kind)})
