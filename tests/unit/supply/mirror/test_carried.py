"""A mirror on a disk: what was changed on the way is named; a delta makes the next one, or none."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from b200kit.supply.mirror import delta, index, proof
from b200kit.supply.mirror.delta import DeltaRefused
from b200kit.supply.mirror.index import Bytes, Index

FIRST = {"apt/s/pool/a.deb": b"one", "wheels/w.whl": b"two", "models/m/config.json": b"{}"}
SECOND = {"apt/s/pool/b.deb": b"new", "wheels/w.whl": b"two", "models/m/config.json": b'{"a": 1}'}


def mirror(root: Path, files: dict[str, bytes]) -> Index:
    """A directory with these files and their index, which nobody signed."""
    now = datetime(2026, 11, 24, tzinfo=UTC)
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    proven = {n: Bytes(len(c), hashlib.sha256(c).hexdigest()) for n, c in files.items()}
    made = Index(now, now + timedelta(days=90), {}, proven)
    (root / index.NAME).write_bytes(index.written(made))
    (root / index.SIGNATURE).write_text("signed")
    return made


def wrong(root: Path, of: Index) -> list[str]:
    """The files that the proof names."""
    lines = proof.problems(root, of, lambda number, every: None)
    return sorted(line.partition(":")[0] for line in lines)


@pytest.fixture
def old(tmp_path: Path) -> tuple[Path, Index]:
    """The first mirror."""
    return tmp_path / "old", mirror(tmp_path / "old", FIRST)


@pytest.fixture
def new(tmp_path: Path) -> tuple[Path, Index]:
    """The second one."""
    return tmp_path / "new", mirror(tmp_path / "new", SECOND)


def flip(path: Path) -> None:
    """One bit."""
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)


def link(path: Path) -> None:
    """The same bytes, elsewhere."""
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda root: flip(root / "apt/s/pool/a.deb"), ["apt/s/pool/a.deb"]),
        (lambda root: flip(root / "wheels/w.whl"), ["wheels/w.whl"]),
        (lambda root: (root / "models/m/config.json").unlink(), ["models/m/config.json"]),
        (lambda root: (root / "wheels/w.whl").write_bytes(b"twoo"), ["wheels/w.whl"]),
        (lambda root: (root / "wheels/x.whl").write_bytes(b""), ["wheels/x.whl"]),
        (lambda root: (root / "apt/.hidden").write_bytes(b""), ["apt/.hidden"]),
        (lambda root: link(root / "wheels/w.whl"), ["wheels/elsewhere", "wheels/w.whl"]),
        (lambda root: os.mkfifo(root / "wheels/pipe"), ["wheels/pipe"]),
    ],
)
def test_every_change_is_named(
    old: tuple[Path, Index], spoil: Callable[[Path], None], named: list[str]
) -> None:
    root, of = old
    assert wrong(root, of) == []
    spoil(root)
    assert wrong(root, of) == named


def test_delta_is_what_differs_and_makes_the_next_mirror(
    old: tuple[Path, Index], new: tuple[Path, Index], tmp_path: Path
) -> None:
    (root, before), (next_root, after), carried = old, new, tmp_path / "delta"
    delta.make(next_root, index.difference(before, after), carried)
    names = {p.relative_to(carried).as_posix() for p in carried.rglob("*") if p.is_file()}
    assert names == {"apt/s/pool/b.deb", "models/m/config.json", *index.OWN}
    assert delta.apply(carried, root, after) == ["apt/s/pool/a.deb"]
    assert delta.read(root) == after
    assert wrong(root, after) == []
    # Whoever was killed after that runs it again.
    assert delta.apply(carried, root, after) == []


def test_delta_that_does_not_fit_changes_nothing(
    old: tuple[Path, Index], new: tuple[Path, Index], tmp_path: Path
) -> None:
    (root, before), (next_root, after), carried = old, new, tmp_path / "delta"
    delta.make(next_root, index.difference(before, after), carried)
    spoilt = tmp_path / "spoilt"
    shutil.copytree(carried, spoilt)
    flip(spoilt / "apt/s/pool/b.deb")
    (carried / "wheels").mkdir()
    (carried / "wheels/z.whl").write_bytes(b"")
    for each in (spoilt, carried):
        with pytest.raises(DeltaRefused):
            delta.apply(each, root, after)
        assert wrong(root, before) == []
    (carried / "wheels/z.whl").unlink()
    (root / "wheels/w.whl").unlink()
    with pytest.raises(DeltaRefused) as refused:
        delta.apply(carried, root, after)
    assert "wheels/w.whl" in str(refused.value)
    with pytest.raises(DeltaRefused):
        delta.make(next_root, index.difference(before, after), carried)


def test_older_mirror_is_not_put_over_a_newer_one(old: tuple[Path, Index], tmp_path: Path) -> None:
    root, there = old
    delta.require_newer(root, there)
    delta.require_newer(root, replace(there, made=there.made + timedelta(days=1)))
    delta.require_newer(tmp_path / "nothing", there)
    with pytest.raises(DeltaRefused, match="before that of"):
        delta.require_newer(root, replace(there, made=there.made - timedelta(seconds=1)))


@pytest.mark.parametrize("place", ["wheels", "wheels/w.whl", "new"])
def test_nothing_is_written_through_a_link(
    old: tuple[Path, Index], new: tuple[Path, Index], tmp_path: Path, place: str
) -> None:
    (root, before), (next_root, after), carried = old, new, tmp_path / "delta"
    delta.make(next_root, index.difference(before, after), carried)
    if (root / place).exists():
        (root / place).rename(tmp_path / "elsewhere")
    else:
        (tmp_path / "elsewhere").mkdir()
    (root / place).symlink_to(tmp_path / "elsewhere")
    looked = sorted(tmp_path.joinpath("elsewhere").rglob("*"))
    with pytest.raises(DeltaRefused, match="a link"):
        delta.apply(carried, root, after)
    assert sorted(tmp_path.joinpath("elsewhere").rglob("*")) == looked
    assert (root / place).is_symlink()
