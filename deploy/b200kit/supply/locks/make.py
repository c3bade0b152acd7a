"""The lock of one version of an engine for one Python, checked before anybody gets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from b200kit.supply.locks import resolver, rules
from b200kit.supply.locks.lock_file import pins
from b200kit.supply.locks.recipe import Recipe
from b200kit.supply.locks.resolver import Request
from b200kit.supply.program import SupplyRefused


@dataclass(frozen=True)
class Wanted:
    """A version of an engine; *compiled* keeps a package whose kernels can't be had."""

    recipe: Recipe
    version: str
    overrides: tuple[str, ...] = ()
    compiled: bool = False


def make(wanted: Wanted, python: str, day: str) -> str:
    """The text of the lock; `SupplyRefused` where there is none, or none that would work."""
    recipe = wanted.recipe
    given = (*recipe.overrides.get(wanted.version, ()), *wanted.overrides)
    request = Request(
        requirements=(f"{recipe.engine}=={wanted.version}", *recipe.requirements),
        constraints=recipe.constraints,
        overrides=given,
        python=python,
        glibc=recipe.glibc,
    )
    body, left_out = _with_kernels(wanted, request)
    text = _header(wanted, python, day, given, left_out) + body
    if found := rules.faults(text, recipe, recipe.file_name(python)):
        raise SupplyRefused(f"what the index has does not fit together: {found[0]}")
    return text


def _with_kernels(wanted: Wanted, request: Request) -> tuple[str, str]:
    """The packages, and the one that is left out because its kernels can't be had."""
    body, of = resolver.resolve(request), wanted.recipe.kernels_of
    package = pins(body).get(of)
    if package is None or wanted.compiled:
        return body, ""
    kernels = [f"{name}=={package.version}" for name in wanted.recipe.kernels]
    try:
        more = replace(request, requirements=(*request.requirements, *kernels))
        return resolver.resolve(more), ""
    except SupplyRefused:
        without = replace(request, overrides=(*request.overrides, nowhere(of)))
        return resolver.resolve(without), of


def nowhere(package: str) -> str:
    """The override that leaves a package out, whoever asks for it."""
    return f'{package} ; sys_platform == "none"'


def _header(wanted: Wanted, python: str, day: str, overrides: Sequence[str], left_out: str) -> str:
    recipe = wanted.recipe
    lines = [
        f"{recipe.label} and all it needs: x86-64 Linux, wheels only.",
        f"Made by `b200 lock {recipe.engine} {wanted.version}` on {day}; not edited.",
        f"python: {python}",
        f"glibc: {recipe.glibc}",
        *(f"override: {line}" for line in overrides),
        *([f"left out: {left_out}"] if left_out else []),
    ]
    return "".join(f"# {line}\n" for line in lines) + "\n"
