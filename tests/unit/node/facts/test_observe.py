"""The whole observation, run as on a node: the zipapp, isolated, on a machine that is no B200."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.facts import observe, system, xid
from b200kit.run import zipapp
from tests.messages import assert_message
from tests.unit.node.conftest import Nvml
from tests.unit.node_schema import problems


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The node program as it is shipped."""
    path = tmp_path_factory.mktemp("program") / "node.pyz"
    path.write_bytes(zipapp.build()[0])
    return path


def run(program: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """The program in an isolated interpreter."""
    argv = [sys.executable, "-I", str(program), *args]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def observed(program: Path, ask: dict[str, Any] | None = None) -> dict[str, Any]:
    """One observation."""
    encoded = base64.b64encode(json.dumps(ask or {}).encode()).decode()
    done = run(program, "observe", "--ask", encoded)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.usefixtures("no_nvml")
def test_machine_without_a_gpu_gives_an_honest_document(program: Path) -> None:
    document = observed(program)
    assert problems(document) == []
    assert_message(document["gpus"]["unmeasured"])
    assert document["tool"]["sha256"] == zipapp.build()[1]
    assert document["cpus"]["online"]


def test_what_is_asked_for_is_answered(program: Path, tmp_path: Path, nvml: Nvml) -> None:
    nvml()
    (tmp_path / "secret").write_text("hunter2")
    ask = {
        "files": ["/no/such/file"],
        "secrets": {str(tmp_path / "secret"): "00"},
        "units": ["x.service"],
        "packages": ["no-such-package"],
        "disks": ["/"],
        "placement": ["y.service"],
    }
    document = observed(program, ask)
    assert problems(document) == []
    assert document["files"]["/no/such/file"] is None
    assert "hmac" in document["files"][str(tmp_path / "secret")]
    assert {"x.service", "y.service", "nvidia-fabricmanager.service"} <= set(document["units"])
    assert document["disks"]["/"]["total_bytes"] > 0
    assert len(document["gpus"]) == 8
    assert "hunter2" not in json.dumps(document)


@pytest.mark.parametrize("ask", ["no base64!", base64.b64encode(b"[]").decode()])
def test_request_that_cannot_be_read_is_refused(program: Path, ask: str) -> None:
    done = run(program, "observe", "--ask", ask)
    assert done.returncode == 2
    assert done.stdout == ""


@pytest.mark.parametrize("args", [[], ["no-such-command"]])
def test_unknown_command_lists_the_known(program: Path, args: list[str]) -> None:
    done = run(program, *args)
    assert done.returncode == 2
    assert "observe, gate" in done.stderr
    assert "_nvml" not in done.stderr


def test_fault_in_one_reader_does_not_cost_the_document() -> None:
    def broken() -> None:
        raise RuntimeError("oops")

    assert observe.guarded(broken) == {"unmeasured": "RuntimeError: oops"}


def test_kernel_log_is_read_once_for_all_that_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def log() -> list[str]:
        read.append(1)
        return []

    monkeypatch.setattr(xid, "kernel_log", log)
    parts = observe.parts({})
    assert (parts["xids"](), parts["sxids"]()) == ([], [])
    assert len(read) == 1


def test_units_that_every_verdict_needs_are_read_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "units", list)
    assert observe.parts({"units": ["x.service"]})["units"]() == [
        *observe.FABRIC_UNITS,
        "x.service",
    ]
    assert "nvidia-dcgm.service" in observe.FABRIC_UNITS
