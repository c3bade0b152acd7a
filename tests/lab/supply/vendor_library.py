"""NVIDIA's own NVML library, as Debian packages it: real symbols and answers, without a driver."""

from __future__ import annotations

from pathlib import Path

from tests.lab.mounts import remove_tree
from tests.lab.supply.debian_package import unpack
from tests.lab.supply.systems import DEFAULT, NEWER

PACKAGE, SONAME = "libnvidia-ml1", "libnvidia-ml.so.1"
SYSTEM_OF = {535: DEFAULT, 550: NEWER}
"""Driver branch to the release of Debian whose non-free part has it."""


def nvml_library(cache: Path, branch: int) -> Path:
    """The library of a driver branch; downloaded the first time (0.7 MB and apt's lists)."""
    folder = cache / f"{PACKAGE}-{branch}"
    if not folder.is_dir():
        building = cache / f"{folder.name}.building"
        remove_tree(building)
        unpack(building, SYSTEM_OF[branch], "non-free", PACKAGE)
        building.rename(folder)
    (library,) = folder.rglob(SONAME)
    return library
