"""The libraries that decide an engine's speed, by names of our own. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LIBRARIES = {
    "torch": r"torch",
    "nccl": r"nvidia-nccl-cu[0-9]+",
    "flashinfer": r"flashinfer-python",
    "cuda": r"nvidia-cuda-runtime(-cu[0-9]+)?",
}
# The first branch of drivers that runs a major version of CUDA, whatever its minor one. Quoted:
# minor version compatibility (docs.nvidia.com/deploy/cuda-compatibility).
FIRST_DRIVER = {11: 450, 12: 525, 13: 580}


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
