"""NVIDIA's own libraries, as Debian packages them: real symbols and answers, without a driver."""

from __future__ import annotations

from pathlib import Path

from tests.lab.mounts import remove_tree
from tests.lab.own_network import outside
from tests.lab.supply.debian_package import unpack
from tests.lab.supply.systems import DEFAULT, NEWER

SYSTEM_OF = {535: DEFAULT, 550: NEWER}
"""Driver branch to the release of Debian whose non-free part has it."""


def nvml_library(cache: Path, branch: int) -> Path:
    """NVML of a driver branch; downloaded the first time (0.7 MB and apt's lists)."""
    return _library(cache, branch, "libnvidia-ml1", "libnvidia-ml.so.1")


def cuda_library(cache: Path, branch: int) -> Path:
    """CUDA's driver API of a driver branch; downloaded the first time (8 MB and apt's lists)."""
    return _library(cache, branch, "libcuda1", "libcuda.so.1")


def _library(cache: Path, branch: int, package: str, soname: str) -> Path:
    folder = cache / f"{package}-{branch}"
    if not folder.is_dir():
        building = cache / f"{folder.name}.building"
        remove_tree(building)
        with outside():
            unpack(building, SYSTEM_OF[branch], "non-free", package)
        building.rename(folder)
    (library,) = folder.rglob(soname)
    return library
