"""The libraries that decide an engine's speed, by names of our own. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LIBRARIES = {
    "torch": r"torch",
    "nccl": r"nvidia-nccl-cu\d+",
    "flashinfer": r"flashinfer-python",
    "cuda": r"nvidia-cuda-runtime(-cu\d+)?",
}


def libraries(lock: str) -> dict[str, str]:
    """Versions of the libraries that decide speed, from a hash-locked requirements file."""
    return named(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", lock, re.MULTILINE))


def named(packages: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The versions among (package, version) of the libraries that decide speed, by our names."""
    found: dict[str, set[str]] = {}
    for name, version in packages:
        for ours, pattern in _LIBRARIES.items():
            if re.fullmatch(pattern, name.lower().replace("_", "-")):
                found.setdefault(ours, set()).add(version)
    return {ours: ", ".join(sorted(versions)) for ours, versions in found.items()}
