"""What a killed build leaves mounted: nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab import rootfs
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
