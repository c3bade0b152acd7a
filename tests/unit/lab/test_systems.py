"""Which operating system a lab's nodes have: chosen once, and the same for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.paths import LabError, LabPaths
from tests.lab.rootfs import recipe_stamp
from tests.lab.supply.systems import DEFAULT, NEWER, SYSTEMS, VARIABLE, choose, system_of
from tests.messages import raises_message


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabPaths:
    monkeypatch.delenv(VARIABLE, raising=False)
    return LabPaths(tmp_path, 3)


def test_nodes_that_are_there_decide_and_another_system_beside_them_is_refused(
    lab: LabPaths,
) -> None:
    choose(lab, NEWER.name)
    lab.hosts.mkdir()
    assert choose(lab) == NEWER
    with raises_message(LabError):
        choose(lab, DEFAULT.name)
    assert system_of(lab) == NEWER


def test_systems_share_neither_base_nor_stamp(tmp_path: Path) -> None:
    labs = {name: LabPaths(tmp_path, number) for number, name in enumerate(SYSTEMS)}
    for name, lab in labs.items():
        choose(lab, name)
    for made in ("base", "base_stamp"):
        assert len({getattr(lab, made).resolve() for lab in labs.values()}) == len(SYSTEMS)
    assert len({recipe_stamp(system) for system in SYSTEMS.values()}) == len(SYSTEMS)
