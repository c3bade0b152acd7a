"""CDI specifications: what they name, and what of that is on the node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.facts import cdi

SPEC: dict[str, Any] = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "containerEdits": {
        "deviceNodes": [{"path": "/dev/null"}],
        "hooks": [{"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook"}],
        "mounts": [
            {"containerPath": "/x", "hostPath": "/usr/lib/x86_64-linux-gnu/libcuda.so.580.126.20"},
            {"containerPath": "/y", "hostPath": "/usr/lib/libnvidia-egl-gbm.so.1.1.2"},
            {"containerPath": "/etc", "hostPath": "/etc"},
        ],
    },
    "devices": [
        {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}},
        {
            "name": "all",
            "containerEdits": {
                "deviceNodes": [{"path": "/dev/nvidia0"}, {"path": "/in", "hostPath": "/dev/zero"}]
            },
        },
    ],
}


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The static and the dynamic directory; the second is not there yet."""
    static, dynamic = tmp_path / "etc", tmp_path / "run"
    static.mkdir()
    monkeypatch.setattr(cdi, "DIRECTORIES", (static, dynamic))
    return static, dynamic


def test_a_specification_is_summed_up_with_what_is_missing(folders: tuple[Path, Path]) -> None:
    path = folders[0] / "nvidia.json"
    path.write_text(json.dumps(SPEC))
    assert cdi.specs() == {
        str(path): {
            "version": "0.5.0",
            "devices": {"0": ["/dev/nvidia0"], "all": ["/dev/nvidia0", "/dev/zero"]},
            "missing": [
                "/dev/nvidia0",
                "/usr/bin/nvidia-cdi-hook",
                "/usr/lib/libnvidia-egl-gbm.so.1.1.2",
                "/usr/lib/x86_64-linux-gnu/libcuda.so.580.126.20",
            ],
            "drivers": ["580.126.20"],
            "hooks": ["nvidia-cdi-hook"],
        }
    }


def test_what_is_not_for_gpus_or_no_specification_is_left_out(folders: tuple[Path, Path]) -> None:
    (folders[0] / "nic.json").write_text(json.dumps({**SPEC, "kind": "vendor.com/nic"}))
    (folders[0] / "notes.txt").write_text("x")
    assert cdi.specs() == {}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "[" * 100_000,
        '{"kind": "nvidia.com/gpu", "devices": 1}',
        '{"kind": "nvidia.com/gpu", "devices": [1]}',
        '{"kind": "nvidia.com/gpu", "kind": "nvidia.com/gpu"}',
    ],
    ids=range(6),
)
def test_what_cannot_be_read_is_unmeasured_and_the_rest_is_there(
    folders: tuple[Path, Path], text: str
) -> None:
    folders[1].mkdir()
    broken, sound = folders[0] / "a.json", folders[1] / "nvidia.json"
    broken.write_text(text)
    sound.write_text(json.dumps(SPEC))
    found = cdi.specs()
    assert list(found) == [str(broken), str(sound)]
    assert "unmeasured" in found[str(broken)]
    assert "devices" in found[str(sound)]
