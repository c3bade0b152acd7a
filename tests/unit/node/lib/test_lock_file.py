"""Locks are root's alone: whoever can open one can hold up whoever waits for it."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

from b200kit.node.bandwidth.run import alone
from b200kit.node.lib import lock_file
from b200kit.node.serving.gateway import rolling_restart
from b200kit.run import remote
from tests.unit.test_architecture import LIBRARY

MASK = 0o022


def others_may(path: Path) -> int:
    """What a lock lets others than its owner do."""
    return stat.S_IMODE(path.stat().st_mode) & 0o077


def test_nobody_else_may_open_a_lock(tmp_path: Path) -> None:
    before = os.umask(MASK)
    try:
        os.close(lock_file.opened(tmp_path / "a" / "lock"))
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
    own = {path for path in lockers if "lock_file.opened(" in texts[path]}
    assert {path.name for path in lockers - own} == {"lock.py"}
