"""Packages of Debian, downloaded by this machine's apt and not installed on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.lab.shell import run
from tests.lab.supply.debian import main_source
from tests.lab.supply.systems import System


def unpack(folder: Path, system: System, component: str, package: str) -> Path:
    """Fill a new folder with apt's lists and the package; returns the package's files in it."""
    (file,) = download(folder, system, component, [package])
    run(["dpkg-deb", "--extract", file, folder / "root"])
    return folder / "root"


def download(folder: Path, system: System, component: str, packages: Sequence[str]) -> list[Path]:
    """Fill a new folder with apt's lists and the packages' files; returns the files, sorted."""
    for name in ("lists/partial", "archives/partial"):
        (folder / name).mkdir(parents=True)
    sources = folder / "sources.list"
    line = main_source(system).removesuffix("main")
    sources.write_text(f"{line}{component}\n", encoding="utf-8")
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
    run(["apt-get", *options, "download", *packages], timeout=600, cwd=folder)
    return sorted(folder.glob("*.deb"))
