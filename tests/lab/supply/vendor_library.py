"""NVIDIA's own libraries, as Debian packages them: real symbols and answers, without a driver."""

from __future__ import annotations

from pathlib import Path

from tests.lab.mounts import remove_tree
from tests.lab.own_network import outside
from tests.lab.shell import run
from tests.lab.supply.debian import main_source
from tests.lab.supply.systems import DEFAULT, NEWER, System

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
            _unpack(building, SYSTEM_OF[branch], package)
        building.rename(folder)
    (library,) = folder.rglob(soname)
    return library


def _unpack(folder: Path, system: System, package: str) -> None:
    """Have this machine's apt download the package of a system, and unpack it."""
    for name in ("lists/partial", "archives/partial"):
        (folder / name).mkdir(parents=True)
    sources = folder / "sources.list"
    line = main_source(system).removesuffix("main")
    sources.write_text(f"{line}non-free\n", encoding="utf-8")
    (folder / "status").touch()
    settings = {
        "Dir::State": folder,
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder,
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "APT::Sandbox::User": "root",
    }
    options = [f"--option={key}={value}" for key, value in settings.items()]
    run(["apt-get", *options, "update"], timeout=600)
    run(["apt-get", *options, "download", package], timeout=600, cwd=folder)
    (archive,) = folder.glob("*.deb")
    run(["dpkg-deb", "--extract", archive, folder / "root"])
