"""Which lock an inventory means, and the command that makes one that is not there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from b200kit.catalog import systems
from b200kit.inventory.keys.parts import Engine
from b200kit.run import places
from b200kit.supply.locks.recipe import LockRecipe, recipes


def filled(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """A host's data with the shipped lock for its `system`, where it names wheels but no lock."""
    engine, system = data.get("engine"), systems.load().get(str(data.get("system")))
    if not isinstance(engine, Mapping) or system is None:
        return data
    recipe = recipes().get((str(engine.get("name", "vllm")), str(engine.get("kind"))))
    if recipe is None or engine.get("requirements") or engine.get("image"):
        return data
    lock = str(places.LOCKS / recipe.file_name(system.versions.python))
    return {**data, "engine": {**engine, "requirements": lock}}


def missing(engine: Engine) -> str:
    """What to do about a lock that is not there; empty for one that no command makes."""
    recipe = _recipe(engine)
    path = Path(engine.requirements)
    named = re.fullmatch(r".*-py([0-9])([0-9]+)\.txt", path.name)
    if recipe is None or named is None:
        return ""
    python = f"{named[1]}.{named[2]}"
    if path.name != recipe.file_name(python):
        return ""
    if python not in recipe.pythons:
        known = ", ".join(recipe.pythons)
        what = f"{recipe.label} is for Python {known}, not {python}"
        return f"{path} is not there: {what}; take engine.image, or another operating system"
    usual = path.resolve().parent == places.LOCKS
    elsewhere = "" if usual else f" --to {path.parent}"
    return f"{path} is not there: {command(engine)} --python {python}{elsewhere}"


def command(engine: Engine) -> str:
    """The command that makes the locks of an engine; empty where there is none."""
    return f"b200 lock {engine.name} {engine.version}" if _recipe(engine) else ""


def _recipe(engine: Engine) -> LockRecipe | None:
    return recipes().get((engine.name, engine.kind))
