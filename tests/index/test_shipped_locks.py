"""The shipped locks against the package index: what each wheel's own metadata asks for.

uv resolves the pins of a lock once more, for its Python and glibc. It reads the metadata of every
wheel, and no wheel. A pin that is gone, is not for this Python or glibc, or contradicts another's
metadata is refused; one that is lacking appears as an addition.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from b200kit.supply.locks import resolver
from b200kit.supply.locks.lock_file import difference, pins, said
from b200kit.supply.locks.make import nowhere
from b200kit.supply.locks.recipe import recipes
from b200kit.supply.locks.resolver import Request
from b200kit.supply.program import SupplyRefused

pytestmark = pytest.mark.index
RECIPE = recipes()["vllm", "cuda"]
FOLDER = Path(__file__).resolve().parents[2] / "requirements"


def shipped(python: str) -> str:
    """A shipped lock."""
    return (FOLDER / RECIPE.file_name(python)).read_text(encoding="utf-8")


@cache
def resolved(text: str) -> str:
    """The lock of a lock's own pins."""
    [python], [glibc] = said(text, "python"), said(text, "glibc")
    overrides = (*said(text, "override"), *map(nowhere, said(text, "left out")))
    listed = [f"{pin.name}=={pin.version}" for pin in pins(text).values()]
    # An override replaces the pin itself, too: a constraint keeps it beside a newer release.
    return resolver.resolve(Request(listed, python, glibc, listed, overrides))


def unproven(text: str) -> list[str]:
    """Pins with a hash that no file of that version on the index has."""
    there = pins(resolved(text))
    return [n for n, pin in pins(text).items() if not set(pin.hashes) <= set(there[n].hashes)]


@pytest.mark.parametrize("python", RECIPE.pythons)
def test_pins_need_each_other_and_nothing_else(python: str) -> None:
    text = shipped(python)
    assert [line for line in difference(text, resolved(text)) if "hashes" not in line] == []
    assert unproven(text) == []


def without(name: str) -> Callable[[str], str]:
    """The lock without one of its pins."""
    pin = pins(shipped("3.12"))[name]
    return lambda text: text.replace(f"{name}=={pin.version} \\\n", "# \\\n", 1)


def replaced(before: str, after: str) -> Callable[[str], str]:
    """The lock with another text at one place."""

    def change(text: str) -> str:
        assert before in text
        return text.replace(before, after, 1)

    return change


def pinned(name: str, version: str) -> Callable[[str], str]:
    """The lock with another version of a package."""
    return replaced(f"\n{name}=={pins(shipped('3.12'))[name].version} ", f"\n{name}=={version} ")


@pytest.mark.parametrize(
    "spoil",
    [
        replaced("# python: 3.12", "# python: 3.10"),
        replaced("# glibc: 2.34", "# glibc: 2.17"),
        pinned("numpy", "1.26.4"),
        pinned("nvidia-cuda-runtime", "13.2.75"),
        pinned("vllm", "0.33.99"),
        replaced("# override: certifi", "# once: certifi"),
    ],
    ids=["Python", "glibc", "conflict", "CUDA", "version", "override"],
)
def test_lock_that_cannot_hold_is_refused(spoil: Callable[[str], str]) -> None:
    with pytest.raises(SupplyRefused):
        resolved(spoil(shipped("3.12")))


def test_lacking_pin_is_an_addition() -> None:
    text = without("regex")(shipped("3.12"))
    assert [line.split()[:2] for line in difference(text, resolved(text))] == [["+", "regex"]]


def test_hash_of_no_file_is_found() -> None:
    text = shipped("3.12")
    digest = pins(text)["vllm"].hashes[0]
    assert unproven(text.replace(digest, f"sha256:{'0' * 64}")) == ["vllm"]
