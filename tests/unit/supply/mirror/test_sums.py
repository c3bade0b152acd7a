"""SHA256SUMS of a mirror: what it proves, in its time, and what was changed on the way."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from b200kit import cli
from b200kit.supply.mirror import signature, sums
from b200kit.supply.mirror.sums import Sums
from b200kit.supply.program import SupplyRefused
from tests.messages import raises_message
from tests.subtests import in_subtests

FILES = {"apt/s/pool/a.deb": b"one", "wheels/w.whl": b"two", "models/m/config.json": b"{}"}
NOW = datetime.now(UTC).replace(microsecond=0)
MADE = Sums(
    made=NOW,
    expires=NOW + timedelta(days=90),
    described="debian12, driver 580.126.20",
    files={name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()},
)
HEAD = "# serial 1764253086\n# expires 2027-05-26T12:00:00Z\n# for debian12\n"


def write(root: Path, of: Sums) -> Path:
    """A mirror of these files and sums."""
    for name, content in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    (root / sums.NAME).write_text(of.text())
    (root / sums.SIGNATURE).write_text("signed")
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A mirror."""
    return write(tmp_path / "mirror", MADE)


def test_what_is_written_is_read_again_by_sha256sum_too(root: Path) -> None:
    assert sums.read(root) == replace(MADE, files=dict(sorted(MADE.files.items())))
    check = ["sha256sum", "--check", "--strict", sums.NAME]
    subprocess.run(check, cwd=root, check=True, capture_output=True)


@in_subtests("path", ["../x", "a/../../x", "/etc/passwd", "a//b", "./a", "a/.", "", "a\\b", "a\r"])
def test_path_outside_the_mirror_is_refused(path: str) -> None:
    with pytest.raises(SupplyRefused):
        sums.parse(f"{HEAD}{'a' * 64}  {path}\n".encode())


@in_subtests(
    "text",
    [
        *["", "[]", "\ufffd", HEAD.replace("serial", "number"), HEAD.replace("-", " ")],
        *[f"{HEAD}{'A' * 64}  a\n", f"{HEAD}{'a' * 64}  {sums.NAME}\n"],
        HEAD + 2 * f"{'a' * 64}  a\n",
    ],
)
def test_text_that_proves_nothing_is_refused(text: str) -> None:
    with raises_message(SupplyRefused):
        sums.parse(text.encode())


def trust(root: Path, monkeypatch: pytest.MonkeyPatch, after: Path | None = None) -> Sums:
    """The sums as the carrier trusts them, whoever signed."""
    monkeypatch.setattr(signature, "require", lambda file, signed, key: None)
    return sums.trusted(root, Path("key"), after)


@in_subtests(
    ("made", "expires"),
    [(-91, -1), (-1, 0), (1, 90)],
)
def test_time_that_is_over_or_not_yet_begun_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch, made: int, expires: int
) -> None:
    begins, ends = NOW + timedelta(days=made), NOW + timedelta(days=expires)
    write(root, replace(MADE, made=begins, expires=ends))
    with pytest.raises(SupplyRefused):
        trust(root, monkeypatch)


def test_older_mirror_is_refused_where_a_newer_one_is(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = write(tmp_path / "older", replace(MADE, made=NOW - timedelta(seconds=1)))
    assert trust(root, monkeypatch, older).serial == trust(older, monkeypatch).serial + 1
    trust(root, monkeypatch, root)
    with pytest.raises(SupplyRefused, match="is newer"):
        trust(older, monkeypatch, root)
    verify = ["mirror", "verify", "--public-key", str(root / sums.NAME), str(older)]
    assert [cli.main([*verify, "--after", str(one)]) for one in (older, root)] == [0, 1]


def test_fresh_is_with_more_than_a_third_of_its_time() -> None:
    for days, fresh in ((59, True), (61, False)):
        made = NOW - timedelta(days=days)
        assert replace(MADE, made=made, expires=made + timedelta(days=90)).is_fresh is fresh


def flip(path: Path) -> None:
    """One bit."""
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)


def link(path: Path) -> None:
    """Other bytes, elsewhere."""
    path.with_name("elsewhere").write_bytes(b"other")
    path.unlink()
    path.symlink_to(path.with_name("elsewhere"))


def test_sums_are_no_link(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link(root / sums.NAME)
    with pytest.raises(SupplyRefused, match="is not there"):
        trust(root, monkeypatch)


@in_subtests(
    ("spoil", "named"),
    [
        (lambda root: flip(root / "apt/s/pool/a.deb"), ["apt/s/pool/a.deb"]),
        (lambda root: (root / "models/m/config.json").unlink(), ["models/m/config.json"]),
        (lambda root: (root / "wheels/x.whl").write_bytes(b""), ["wheels/x.whl"]),
        (lambda root: (root / "apt/.hidden").write_bytes(b""), ["apt/.hidden"]),
        (lambda root: link(root / "wheels/w.whl"), ["wheels/elsewhere", "wheels/w.whl"]),
        (lambda root: os.mkfifo(root / "wheels/pipe"), ["wheels/pipe"]),
    ],
)
def test_every_change_is_named(root: Path, spoil: Callable[[Path], None], named: list[str]) -> None:
    def wrong() -> list[str]:
        lines = sums.problems(root, MADE, lambda number, every: None)
        return sorted(line.partition(":")[0] for line in lines)

    shutil.rmtree(root)
    write(root, MADE)
    assert wrong() == []
    spoil(root)
    assert wrong() == named
