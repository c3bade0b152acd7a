"""What a lock of an engine is made from: `recipes.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from b200kit.catalog import shipped

_RECIPES = Path(__file__).with_name("recipes.yaml")


@dataclass(frozen=True)
class LockRecipe:
    """How the lock of one engine and kind is made."""

    engine: str
    kind: str
    label: str
    glibc: str
    pythons: tuple[str, ...]
    requirements: tuple[str, ...]
    constraints: tuple[str, ...]
    kernels_of: str
    kernels: tuple[str, ...]
    overrides: Mapping[str, tuple[str, ...]]

    def file_name(self, python: str) -> str:
        """The lock's name: `engine-vllm-cuda-py311.txt`."""
        return f"engine-{self.engine}-{self.kind}-py{python.replace('.', '')}.txt"


@cache
def recipes() -> Mapping[tuple[str, str], LockRecipe]:
    """Every recipe by engine and kind."""
    read = shipped.read(_RECIPES)
    return {
        (engine, kind): LockRecipe(
            engine=engine,
            kind=kind,
            kernels_of=given["kernels"]["of"],
            kernels=tuple(given["kernels"]["packages"]),
            overrides={version: tuple(lines) for version, lines in given["overrides"].items()},
            label=given["label"],
            glibc=given["glibc"],
            pythons=tuple(given["pythons"]),
            requirements=tuple(given["requirements"]),
            constraints=tuple(given["constraints"]),
        )
        for engine, kinds in read.items()
        for kind, given in kinds.items()
    }
