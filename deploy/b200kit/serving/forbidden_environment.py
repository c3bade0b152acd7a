"""What a replica refuses to start with, whoever put it into its environment. Pure.

The inventory is checked before anything is touched (b200kit/inventory/engine_rules.py); this is the
second line, on the node: a drop-in of `systemctl edit`, an image's own environment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

EVERYWHERE = {
    "VLLM_TORCH_PROFILER_DIR": "it opens /start_profile to everybody",
    "HF_TOKEN": "a serving replica is offline and has no use for a token",
}
"""Variable to why, besides what the engine's own list has."""


def variables(refused: Mapping[str, str], own: Collection[str]) -> dict[str, str]:
    """Variables that no replica starts with, each with why.

    *refused* is an engine's list of flags and variables; *own* are the variables that the kit
    itself gives the engine.
    """
    listed = {name: why for name, why in refused.items() if name.isupper()}
    return {name: why for name, why in {**EVERYWHERE, **listed}.items() if name not in own}
