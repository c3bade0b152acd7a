"""One GPU is a node, too: bare to live, with nothing of what several GPUs need."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import SHORT_SMOKE, Boot
from tests.e2e.driving import deploy, on

pytestmark = pytest.mark.long

NODE = "b200-1"
ALONE = [f"--data={key}={value}" for key, value in (
    ("hardware", "single"), ("replicas", 1), ("tensor_parallel", 1),
)]  # fmt: skip


def test_one_gpu_comes_live_without_a_fabric(boot: Boot) -> None:
    boot("one-gpu")
    board = deploy("ready.py")
    assert board.code == 1
    assert "8 x B200 (10de:2901)" in board.said
    first = deploy("b200.py", *SHORT_SMOKE, *ALONE)
    assert first.code == 0, first.said
    host = first.host(NODE)
    assert (host["outcome"], host["verdict"]["fit"]) == ("live", "fit")
    assert on(NODE, "systemctl is-active vllm@0 haproxy").split() == ["active", "active"]
    assert "fabric" not in on(NODE, "dpkg-query -W -f '${Package} '")
    again = deploy("b200.py", *SHORT_SMOKE, *ALONE)
    assert (again.code, again.host(NODE)["changes"]) == (0, 0), again.said
