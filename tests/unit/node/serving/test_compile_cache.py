"""Compile caches: one directory a key, few keys kept, and packs only where they fit exactly."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.serving import compile_cache
from b200kit.node.serving import compile_cache_key as rules
from b200kit.node.serving.compile_cache_key import RECORD
from tests.messages import assert_message

KEY, OTHER = "0123456789abcdef", "fedcba9876543210"


def prepare(root: Path, key: str = KEY, *more: str) -> None:
    """What the hook before a start does."""
    words = ["prepare", "--root", str(root), "--key", key, "--packs", str(root.parent / "packs")]
    assert compile_cache.main([*words, *more]) == 0


def pack(root: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Pack the key used last; the hash that is printed."""
    capsys.readouterr()
    assert (
        compile_cache.main(["pack", "--root", str(root), "--packs", str(root.parent / "packs")])
        == 0
    )
    return capsys.readouterr().out.strip()


@pytest.fixture
def warm(tmp_path: Path) -> Path:
    """A replica's directory in which something was compiled."""
    root = tmp_path / "0"
    root.mkdir()
    prepare(root)
    (root / KEY / "triton").mkdir()
    (root / KEY / "triton" / "kernel.so").write_bytes(b"\x7fELF")
    (root / KEY / "triton" / "kernel.so").chmod(0o700)
    (root / KEY / "same.so").hardlink_to(root / KEY / "triton" / "kernel.so")
    (root / KEY / "away").symlink_to("/etc/hostname")
    return root


def test_each_key_has_its_directory_and_says_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    prepare(tmp_path / "0")
    head = json.loads((tmp_path / "0" / KEY / RECORD).read_text())
    assert head == {"schema": "b200kit/caches/1", "key": KEY, "host": compile_cache.host()}
    assert (tmp_path / "0" / KEY).stat().st_mode & 0o777 == 0o700


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


def test_pack_of_a_warm_replica_fills_another_of_the_same_key(
    warm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = pack(warm, capsys)
    assert [path.name for path in (tmp_path / "packs").iterdir()] == [f"{digest}.tar"]
    other = tmp_path / "1"
    other.mkdir()
    prepare(other)
    assert (other / KEY / "triton" / "kernel.so").read_bytes() == b"\x7fELF"
    assert (other / KEY / "same.so").read_bytes() == b"\x7fELF"
    assert os.access(other / KEY / "triton" / "kernel.so", os.X_OK)
    assert not (other / KEY / "away").is_symlink()


def test_pack_of_another_key_is_refused_and_the_replica_starts_cold(
    warm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = pack(warm, capsys)
    other = tmp_path / "1"
    other.mkdir()
    prepare(other, OTHER)
    assert_message(capsys.readouterr().out, DIGEST=digest, KEY=KEY, OTHER=OTHER)
    assert [path.name for path in (other / OTHER).iterdir()] == [RECORD]


def test_pack_of_another_python_is_refused(
    warm: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pack(warm, capsys)
    other = tmp_path / "1"
    other.mkdir()
    monkeypatch.setattr(compile_cache, "host", lambda: {"arch": "x", "os": "y", "python": "9.9"})
    prepare(other)
    assert "python 3." in capsys.readouterr().out
    assert [path.name for path in (other / KEY).iterdir()] == [RECORD]


def test_pack_never_overwrites_what_was_compiled_here(
    warm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack(warm, capsys)
    (warm / KEY / "triton" / "kernel.so").write_bytes(b"newer")
    prepare(warm)
    assert (warm / KEY / "triton" / "kernel.so").read_bytes() == b"newer"


def evil(path: Path, *members: tarfile.TarInfo) -> None:
    """A pack of the right head and strange members."""
    path.parent.mkdir(exist_ok=True)
    head = json.dumps(compile_cache.head(KEY)).encode()
    first = tarfile.TarInfo(RECORD)
    first.size = len(head)
    with tarfile.open(path, "w:") as archive:
        archive.addfile(first, io.BytesIO(head))
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))


def member(name: str, kind: bytes = tarfile.REGTYPE, **more: Any) -> tarfile.TarInfo:
    """A member of an archive."""
    info = tarfile.TarInfo(name)
    info.type = kind
    for key, value in more.items():
        setattr(info, key, value)
    return info


@pytest.mark.parametrize(
    "strange",
    [
        member("../outside"),
        member("/tmp/outside"),
        member("a/../../outside"),
        member("link", tarfile.SYMTYPE, linkname="/etc"),
        member("hard", tarfile.LNKTYPE, linkname="/etc/passwd"),
        member("fifo", tarfile.FIFOTYPE),
        member("dev", tarfile.CHRTYPE),
    ],
    ids=lambda info: info.name,
)
def test_pack_that_reaches_outside_is_refused_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], strange: tarfile.TarInfo
) -> None:
    evil(tmp_path / "packs" / "x.tar", member("fine"), strange)
    root = tmp_path / "0"
    root.mkdir()
    prepare(root)
    assert_message(capsys.readouterr().out)
    assert [path.name for path in (root / KEY).iterdir()] == [RECORD]
    assert [path.name for path in root.iterdir()] == [KEY]


def test_pack_that_is_no_archive_costs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "packs").mkdir()
    (tmp_path / "packs" / "x.tar").write_bytes(b"no tar")
    (tmp_path / "0").mkdir()
    prepare(tmp_path / "0")
    assert "is not used" in capsys.readouterr().out


def test_nothing_prepared_is_nothing_to_pack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        compile_cache.main(["pack", "--root", str(tmp_path), "--packs", str(tmp_path / "p")]) == 1
    )
    assert capsys.readouterr().err.count("\n") == 1


def test_surplus_counts_the_current_key_among_those_kept() -> None:
    used = {"a": 1.0, "b": 2.0, "c": 3.0, "now": 0.0}
    assert rules.surplus(used, "now", 2) == ["a", "b"]
    assert rules.surplus(used, "now", 1) == ["a", "b", "c"]
    assert rules.surplus({}, "now", 2) == []
