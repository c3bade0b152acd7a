"""Compile caches: one directory a key, and few keys kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from b200kit.node.serving import compile_cache
from b200kit.node.serving import compile_cache_key as rules
from b200kit.node.serving.compile_cache_key import RECORD

KEY = "0123456789abcdef"


def prepare(root: Path, key: str = KEY) -> None:
    """What the hook before a start does."""
    assert compile_cache.main(["--root", str(root), "--key", key]) == 0


@pytest.fixture
def warm(tmp_path: Path) -> Path:
    """A replica's directory in which something was compiled."""
    root = tmp_path / "0"
    root.mkdir()
    prepare(root)
    (root / KEY / "triton").mkdir()
    (root / KEY / "triton" / "kernel.so").write_bytes(b"\x7fELF")
    return root


def test_each_key_has_its_directory(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    prepare(tmp_path / "0")
    assert (tmp_path / "0" / KEY).stat().st_mode & 0o777 == 0o700


def test_what_cannot_be_prepared_keeps_no_replica_from_starting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "0").write_text("no directory")
    prepare(tmp_path / "0")
    assert "caches not prepared: " in capsys.readouterr().err


def test_the_two_keys_used_last_stay_and_older_ones_go(tmp_path: Path) -> None:
    root = tmp_path / "0"
    root.mkdir()
    for age, key in enumerate(["a" * 16, "b" * 16, "c" * 16]):
        prepare(root, key)
        os.utime(root / key / RECORD, (1000 + age, 1000 + age))
    assert {path.name for path in root.iterdir()} == {"b" * 16, "c" * 16}
    prepare(root, "b" * 16)
    prepare(root, "d" * 16)
    assert {path.name for path in root.iterdir()} == {"b" * 16, "d" * 16}


def test_caches_outlast_a_restart(warm: Path) -> None:
    prepare(warm)
    assert (warm / KEY / "triton" / "kernel.so").read_bytes() == b"\x7fELF"


def test_link_that_an_engine_laid_leads_the_hook_nowhere(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "0", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    (root / KEY).symlink_to(elsewhere)
    prepare(root)
    assert list(elsewhere.iterdir()) == []
    (root / KEY / RECORD).unlink()
    (root / KEY / RECORD).symlink_to(elsewhere / "made")
    prepare(root)
    assert list(elsewhere.iterdir()) == []
    assert (root / KEY / RECORD).is_file()


def test_surplus_counts_the_current_key_among_those_kept() -> None:
    used = {"a": 1.0, "b": 2.0, "c": 3.0, "now": 0.0}
    assert rules.surplus(used, "now", 2) == ["a", "b"]
    assert rules.surplus(used, "now", 1) == ["a", "b", "c"]
    assert rules.surplus({}, "now", 2) == []
