"""The lock that an inventory means: by its system, or by its name where it is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from b200kit.catalog import systems
from b200kit.inventory.keys.parts import Engine
from b200kit.inventory.keys.problem import parse_keys
from b200kit.run import places
from b200kit.supply.locks import shipped
from b200kit.supply.locks.lock_file import said
from tests.lab.supply.systems import SYSTEMS as LABS
from tests.messages import assert_message

CUDA = {"kind": "cuda", "version": "0.33.0", "wheelhouse": "https://mirror.example.internal/w/"}


def lock_of(system: str | None, **engine: Any) -> str | None:
    """The lock that is taken for an engine on a system."""
    found: str | None = shipped.filled({"system": system, "engine": CUDA | engine})["engine"].get(
        "requirements"
    )
    return found


def engine(path: Path | str, **changes: Any) -> Engine:
    """An engine with a lock."""
    found = parse_keys(Engine, CUDA | {"requirements": str(path)} | changes)
    assert isinstance(found, Engine)
    return found


@pytest.mark.parametrize("system", ["debian12", "debian13", "ubuntu2404"])
def test_system_has_the_shipped_lock_of_its_python(system: str) -> None:
    text = Path(lock_of(system) or "").read_text(encoding="utf-8")
    assert said(text, "python") == [systems.load()[system].versions.python]


def test_lock_of_the_inventory_and_every_other_engine_stay() -> None:
    assert lock_of("debian12", requirements="own.txt") == "own.txt"
    others: list[dict[str, Any]] = [{"image": "x"}, {"kind": "cpu"}, {"name": ["vllm"]}]
    assert [lock_of("debian12", **other) for other in others] == [None] * 3
    assert [lock_of(system) for system in (None, "debian11")] == [None] * 2
    assert shipped.filled({"system": "debian12", "engine": 7})["engine"] == 7


def test_pythons_are_those_of_the_lab_s_systems() -> None:
    known = {key: system.versions.python for key, system in systems.load().items()}
    assert known | {system.name: system.python for system in LABS.values()} == known


@pytest.mark.parametrize("python", ["312", "310"])
def test_missing_lock_is_named_with_what_to_do(python: str) -> None:
    path = places.LOCKS / f"engine-vllm-cuda-py{python}.txt"
    assert_message(shipped.missing(engine(path)))


def test_missing_lock_elsewhere_is_made_there(tmp_path: Path) -> None:
    assert_message(shipped.missing(engine(tmp_path / "engine-vllm-cuda-py312.txt")))


def test_lock_that_no_command_makes_has_no_command() -> None:
    path = "/srv/engine-vllm-cuda-py312.txt"
    others = [engine(path, kind="cpu"), engine("/srv/own.txt"), engine(path, name="sglang")]
    assert [shipped.missing(one) for one in others] == [""] * 3
