"""What a killed build leaves mounted: nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab import rootfs
from tests.lab.mounts import parse_mountinfo
from tests.lab.supply.systems import DEFAULT
from tests.lab.vm import image


@pytest.mark.parametrize(("module", "build"), [
    (rootfs, lambda at: rootfs._bootstrap(at / "root", DEFAULT)),
    (image, lambda at: image._bootstrap(at / "root", at / "early", DEFAULT)),
])  # fmt: skip
def test_a_tree_is_made_in_mounts_that_end_with_its_maker(
    module: object, build: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(module, "run", lambda argv, **_: ran.append(list(map(str, argv))))
    build(tmp_path)
    assert [argv[:3] for argv in ran] == [["unshare", "--mount", "mmdebstrap"]]


def test_a_mount_point_with_a_blank_is_read_back() -> None:
    line = r"36 35 98:0 / /srv/a\040b rw,noatime shared:1 - ext4 /dev/root rw"
    assert parse_mountinfo(line) == [(Path("/srv/a b"), "ext4")]
