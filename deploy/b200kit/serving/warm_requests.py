"""What warm-up and watchdog need to know of a node, as keys of serving.json, and their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from b200kit import engines
from b200kit.inventory import shape
from b200kit.node.state import warmup_features
from b200kit.node.state.drift import File
from b200kit.run.node import Node

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


def warm(node: Node) -> dict[str, Any]:
    """The key `warm`."""
    spec = node.spec
    flags = shape.flags_of(spec)
    return {
        "timeout_s": spec.warm_deadline_s,
        "tolerance": spec.warm_tolerance,
        "max_rounds": _ROUNDS,
        "features": warmup_features.features(flags, spec.features_off),
        "system_prompts": _prompt_paths(node),
    }


def watchdog(node: Node) -> dict[str, Any]:
    """The key `watchdog`: the rules, and how the engine names what shows progress."""
    rules, metrics = node.spec.watchdog, engines.get(node.spec.engine).metrics
    progress = ("generation_tokens", "prompt_tokens")
    return {
        "interval_s": rules.interval_s,
        "deadline_s": rules.deadline_s,
        "strikes": rules.strikes,
        "stall_s": rules.stall_s,
        "ejections": rules.ejections,
        "window_s": rules.window_s,
        "slower": rules.slower,
        "confirm": rules.confirm,
        "looks": rules.looks,
        "clear": rules.clear,
        "takes_out": list(rules.takes_out),
        "mends": list(rules.mends),
        "mend_most": rules.mend_most,
        "mend_window_s": rules.mend_window_s,
        "waiting": metrics.get("waiting", ""),
        "gaps": metrics.get("inter_token_latency", ""),
        "progress": [metrics[name] for name in progress if name in metrics],
    }
