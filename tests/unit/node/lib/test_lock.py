"""The lock of a node: one run at a time, with an end."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.bandwidth.run import alone
from b200kit.node.lib import lock, timestamp
from b200kit.node.lib.boot_clock import Moment
from b200kit.node.serving.gateway import rolling_restart
from b200kit.run import remote
from tests.unit.test_architecture import LIBRARY

NOW = Moment("this boot", 1000.0)
MINE: dict[str, Any] = {"owner": "me", "run": "1", "ttl_s": 60}
OTHER: dict[str, Any] = {"owner": "you", "run": "2", "ttl_s": 60}


def later(seconds: float) -> Moment:
    """A later moment of the same boot."""
    return Moment(NOW.boot_id, NOW.seconds + seconds)


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of day stands still."""
    noon = datetime(2026, 11, 21, 12, tzinfo=timestamp.UTC)
    told = lambda seconds=0.0: timestamp.text(noon + timedelta(seconds=seconds))  # noqa: E731
    monkeypatch.setattr(timestamp, "now", told)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the lock is."""
    return tmp_path / "lock.json"


def test_free_lock_is_taken(path: Path) -> None:
    assert lock.decide(MINE, path, NOW) == {
        "acquired": True,
        "owner": "me",
        "process": None,
        "run": "1",
        "since": "2026-11-21T12:00:00Z",
        "until": "2026-11-21T12:01:00Z",
    }
    assert path.stat().st_mode & 0o777 == 0o600


def test_lock_of_another_is_refused_with_its_name_and_end(path: Path) -> None:
    lock.decide(OTHER, path, NOW)
    answer = lock.decide(MINE, path, later(59))
    assert answer["acquired"] is False
    assert (answer["owner"], answer["until"]) == ("you", "2026-11-21T12:01:00Z")


def test_own_lock_is_refreshed_and_keeps_its_start(path: Path) -> None:
    lock.decide(MINE, path, NOW)
    answer = lock.decide(MINE, path, later(30))
    assert (answer["since"], answer["until"]) == ("2026-11-21T12:00:00Z", "2026-11-21T12:01:00Z")


def test_another_run_of_the_same_owner_is_refused(path: Path) -> None:
    lock.decide(MINE, path, NOW)
    assert lock.decide({**MINE, "run": "9"}, path, NOW)["acquired"] is False


@pytest.mark.parametrize("step_h", [-24 * 365, -1, 1, 24 * 365])
def test_step_of_the_clock_neither_frees_a_lock_nor_keeps_it(
    path: Path, step_h: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock.decide(OTHER, path, NOW)
    stepped = datetime(2026, 11, 21, 12, tzinfo=timestamp.UTC) + timedelta(hours=step_h)
    monkeypatch.setattr(
        timestamp, "now", lambda s=0.0: timestamp.text(stepped + timedelta(seconds=s))
    )
    assert lock.decide(MINE, path, later(59))["acquired"] is False
    assert lock.decide(MINE, path, later(60))["acquired"] is True


def test_boot_frees_a_lock_wherever_it_lies(path: Path) -> None:
    lock.decide(OTHER, path, NOW)
    assert lock.decide(MINE, path, Moment("the next boot", 1.0))["acquired"] is True


def test_expired_lock_is_free(path: Path) -> None:
    lock.decide(OTHER, path, NOW)
    assert lock.decide(MINE, path, later(60))["owner"] == "me"


def test_lock_of_a_run_known_to_be_dead_is_taken_over(path: Path) -> None:
    lock.decide(OTHER, path, NOW)
    assert lock.decide({**MINE, "steal_run": "3"}, path, NOW)["acquired"] is False
    assert lock.decide({**MINE, "steal_run": "2"}, path, NOW)["acquired"] is True


def test_end_of_a_run_releases_its_lock_and_no_other(path: Path) -> None:
    lock.decide(OTHER, path, NOW)
    assert lock.decide({**MINE, "alive": False}, path, NOW)["owner"] == "you"
    lock.decide({**OTHER, "alive": False}, path, NOW)
    assert not path.exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"until": 3}', '{"owner": "x"}'])
def test_lock_that_cannot_be_understood_is_free(path: Path, content: str) -> None:
    path.write_text(content)
    assert lock.decide(MINE, path, NOW)["acquired"] is True


def test_request_keeps_the_lock_under_its_directory(tmp_path: Path) -> None:
    assert lock.request(MINE, tmp_path / "run")["acquired"] is True
    assert json.loads((tmp_path / "run" / "lock.json").read_text())["run"] == "1"


MASK = 0o022


def others_may(path: Path) -> int:
    """What a lock lets others than its owner do."""
    return stat.S_IMODE(path.stat().st_mode) & 0o077


def test_nobody_else_may_open_a_lock(tmp_path: Path) -> None:
    before = os.umask(MASK)
    try:
        os.close(lock.opened(tmp_path / "a" / "lock"))
        os.close(rolling_restart.hold(tmp_path / "roll"))
        with alone(tmp_path / "bandwidth"):
            pass
    finally:
        os.umask(before)
    for name in ("a/lock", "roll", "bandwidth"):
        assert others_may(tmp_path / name) == 0


def test_lock_of_what_a_stage_runs_is_made_for_root_alone_and_in_its_folder(tmp_path: Path) -> None:
    assert remote.ACTING.startswith("/run/b200kit/")
    made = remote.MAKE_ACTING.replace("/run/b200kit", f"{tmp_path}/b200kit")
    for _ in range(2):
        subprocess.run(["sh", "-c", f"umask {MASK:o}; {made} && umask"], check=True)
    assert others_may(tmp_path / "b200kit" / Path(remote.ACTING).name) == 0
    assert others_may(tmp_path / "b200kit") == 0o055


def test_no_lock_is_made_otherwise() -> None:
    texts = {path: path.read_text() for path in (LIBRARY / "node").rglob("*.py")}
    lockers = {path for path, text in texts.items() if "fcntl.flock(" in text}
    own = {path for path in lockers if "lock.opened(" in texts[path]}
    assert {path.name for path in lockers - own} == {"lock.py"}
