"""lab.json: written whole, read back, refused when damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.lab import lab as whole
from tests.lab import own_network, state
from tests.lab.locks import locked, shared_lock
from tests.lab.paths import ID_VARIABLE, LabError, LabPaths
from tests.lab.state import (
    claim_machine,
    lab_lock,
    read_state,
    release_machine,
    write_state,
)
from tests.messages import raises_message


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabPaths:
    monkeypatch.setattr(state, "RUN_DIR", tmp_path / "run")
    return LabPaths(tmp_path / "lab", 3)


def test_the_state_is_for_root_only_as_it_names_the_token(lab: LabPaths) -> None:
    write_state(lab, {})
    assert lab.state_file.stat().st_mode & 0o777 == 0o600


def test_a_damaged_state_is_refused_with_what_to_do(lab: LabPaths) -> None:
    write_state(lab, {})
    lab.state_file.write_text('{"hosts": [')
    with pytest.raises(LabError, match=r"damaged.*b200 lab down"):
        read_state(lab)


def test_a_second_lab_command_is_told_who_holds_the_lock(lab: LabPaths) -> None:
    with (
        lab_lock(lab),
        raises_message(LabError, PID=os.getpid()),
        lab_lock(lab, seconds=0),
    ):
        pass


def test_what_labs_share_is_made_by_one_at_a_time(lab: LabPaths) -> None:
    with (
        shared_lock(lab.root),
        pytest.raises(LabError, match=r"in use: process \d+"),
        locked(lab.root / "lock", 0, "in use"),
    ):
        pass


def test_an_id_is_refused_to_another_directory_while_its_lab_is_up(
    lab: LabPaths, tmp_path: Path
) -> None:
    claim_machine(lab)
    claim_machine(lab)
    second = LabPaths(tmp_path / "second", 3)
    with raises_message(LabError):
        claim_machine(second)
    claim_machine(LabPaths(tmp_path / "second", 4))
    release_machine(lab)
    claim_machine(second)


def test_lab_of_another_directory_is_not_taken_down(
    lab: LabPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim_machine(lab)
    monkeypatch.setenv("B200_LAB", str(tmp_path / "second"))
    monkeypatch.setenv(ID_VARIABLE, str(lab.id))
    monkeypatch.setattr(whole, "ensure_root", lambda: None)
    # The first that would be stopped.
    monkeypatch.setattr(own_network, "exists", lambda: pytest.fail("it was taken down"))
    with raises_message(LabError):
        whole.down()
    assert state.claims() == [lab]
