"""The distribution's archive is this machine's own, or one that is named."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from b200kit.supply.mirror import apt_closure
from b200kit.supply.mirror.apt_closure import Closure
from b200kit.supply.mirror.needs import PackageSet
from b200kit.supply.program import SupplyRefused
from tests.messages import assert_message


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that runs Debian 12, and its /etc/apt."""
    monkeypatch.setattr(
        platform, "freedesktop_os_release", lambda: {"ID": "debian", "VERSION_ID": "12"}
    )
    monkeypatch.setattr(apt_closure, "_acquire", lambda: "")
    monkeypatch.setattr(apt_closure, "_APT", tmp_path / "apt")
    (tmp_path / "apt/sources.list.d").mkdir(parents=True)
    (tmp_path / "apt/sources.list").write_text("deb http://own.example x main\n")
    (tmp_path / "apt/sources.list.d/a.sources").write_text("Types: deb\n")
    return tmp_path


def sources(folder: Path, system: str, given: Path | None = None) -> dict[str, str]:
    """The lists that apt would read for nodes of a system."""
    apt = Closure(folder / "work", PackageSet(system, (), (), ""), folder / "pool", given)
    return {path.name: path.read_text() for path in (apt.root / "sources.list.d").iterdir()}


def test_own_archives_are_for_nodes_of_the_same_system(machine: Path) -> None:
    assert sources(machine, "debian12") == {
        "own-0.list": "deb http://own.example x main\n",
        "own-1.sources": "Types: deb\n",
    }
    with pytest.raises(SupplyRefused) as refused:
        sources(machine, "debian13")
    assert_message(str(refused.value))


def test_archive_that_is_named_is_the_only_one(machine: Path) -> None:
    given = machine / "given"
    given.write_text("Types: deb\n")
    assert sources(machine, "debian13", given) == {"distribution.sources": "Types: deb\n"}
