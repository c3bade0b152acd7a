"""The lock of one version of an engine for one Python, checked before anybody gets it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from packaging.utils import canonicalize_name

from b200kit.supply.locks import resolver
from b200kit.supply.locks.lock_file import LockedPackage, entries, pins, said
from b200kit.supply.locks.recipe import LockRecipe
from b200kit.supply.locks.resolver import Request
from b200kit.supply.program import SupplyRefused

# Parts of one CUDA toolkit that must be of one release, as their versions begin. Not CCCL, whose
# version is its own since CUDA 13.4 and which cuda-toolkit pins; not tools such as nvdisasm.
_TOOLKIT = re.compile(
    r"cuda-toolkit|nvidia-(cuda-(crt|cupti|nvcc|nvrtc|runtime)|nvvm|nvtx)(-cu[0-9]+)?"
)
_ENTRY = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==[A-Za-z0-9.!+_-]+((\s+--hash=\S+)*)\s*")


def faults(text: str, recipe: LockRecipe, name: str) -> list[str]:
    """Why a lock of a recipe, in a file of this name, can't be what it is to be; [] for none."""
    found = pins(text)
    return [
        *_lines(text),
        *_header_faults(text, recipe, name),
        *_cuda(found),
        *_kernel_faults(found, recipe),
    ]


def _lines(text: str) -> Iterator[str]:
    names: set[str] = set()
    for entry in entries(text):
        match = _ENTRY.fullmatch(entry)
        if not match:
            yield f"{entry.split()[0]} is no NAME==VERSION with hashes"
            continue
        name = canonicalize_name(match[1])
        if not pins(entry)[name].hashes:
            yield f"{match[1]} has no SHA-256"
        if name in names:
            yield f"{match[1]} is pinned twice"
        names.add(name)


def _header_faults(text: str, recipe: LockRecipe, name: str) -> Iterator[str]:
    pythons = said(text, "python")
    if len(pythons) != 1:
        yield f"it names {', '.join(pythons) or 'no Python'} instead of one Python"
    elif name != recipe.file_name(pythons[0]):
        yield f"it is for Python {pythons[0]}, which {name} is not the name for"
    if said(text, "glibc") != [recipe.glibc]:
        yield f"it does not name glibc {recipe.glibc}"


def _cuda(found: Mapping[str, LockedPackage]) -> Iterator[str]:
    """Compiler, headers and run time of several CUDA releases do not work together."""
    parts = {name: pin.version for name, pin in found.items() if _TOOLKIT.fullmatch(name)}
    releases = {_release(version) for version in parts.values()}
    if len(releases) > 1:
        listed = ", ".join(f"{name} {version}" for name, version in sorted(parts.items()))
        yield f"parts of CUDA {' and '.join(sorted(releases))} together: {listed}"
    bindings, python = found.get("cuda-bindings"), found.get("cuda-python")
    if bindings and python and _major(bindings.version) != _major(python.version):
        yield f"cuda-python {python.version} beside cuda-bindings {bindings.version}"


def _kernel_faults(found: Mapping[str, LockedPackage], recipe: LockRecipe) -> Iterator[str]:
    """Kernels of another version are refused by the package itself, when it is imported."""
    package = found.get(recipe.kernels_of)
    there = [found[name] for name in recipe.kernels if name in found]
    for pin in there:
        if package is None or pin.version.partition("+")[0] != package.version:
            beside = f"{package.name} {package.version}" if package else f"no {recipe.kernels_of}"
            yield f"{pin.name} {pin.version} beside {beside}"
            return
    if there and len(there) < len(recipe.kernels):
        lacking = [name for name in recipe.kernels if name not in found]
        yield f"{there[0].name} without {', '.join(lacking)}"


def _release(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _major(version: str) -> str:
    return version.partition(".")[0]


@dataclass(frozen=True)
class LockRequest:
    """A version of an engine; *compiled* keeps a package whose kernels can't be had."""

    recipe: LockRecipe
    version: str
    overrides: tuple[str, ...] = ()
    compiled: bool = False


def make(wanted: LockRequest, python: str, day: str) -> str:
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
    if found := faults(text, recipe, recipe.file_name(python)):
        raise SupplyRefused(f"what the index has does not fit together: {found[0]}")
    return text


def _with_kernels(wanted: LockRequest, request: Request) -> tuple[str, str]:
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


def _header(
    wanted: LockRequest, python: str, day: str, overrides: Sequence[str], left_out: str
) -> str:
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
