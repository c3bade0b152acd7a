"""The GPUs of a replica are free, or it is said who holds them; what nobody knows is not free."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from b200kit.node.serving import gpu_free, gpu_holders
from b200kit.node.serving.gpu_free import HELD, UNKNOWN, GpuHolder, ask_reader, wait
from tests.messages import PYTHON, assert_message
from tests.unit import serving_document
from tests.unit.lab.shim_kit import facts
from tests.unit.node.conftest import Nvml

UUID = facts()["gpu.2.uuid"]
OTHER = facts()["gpu.3.uuid"]


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A process that is really there."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process.pid
    process.kill()
    process.wait()


def config(folder: Path, *uuids: str) -> Path:
    """A serving.json with these GPUs for replica 1."""
    return serving_document.written(folder, "http://127.0.0.1:8000", [(), uuids])


def run(path: Path, replica: int = 1) -> int:
    """The command, without patience."""
    return gpu_free.main(["--config", str(path), "--replica", str(replica), "--deadline", "0"])


def test_gpus_without_a_process_are_free(nvml: Nvml, tmp_path: Path) -> None:
    nvml()
    assert run(config(tmp_path, UUID, OTHER)) == 0


def test_process_on_a_gpu_is_named(
    nvml: Nvml, tmp_path: Path, sleeper: int, capsys: pytest.CaptureFixture[str]
) -> None:
    nvml(lines=f"gpu.2.processes={sleeper} 999999999")
    assert run(config(tmp_path, UUID, OTHER)) == HELD
    [line] = capsys.readouterr().err.splitlines()
    assert_message(line, PID=f"pid {sleeper}", PYTHON=PYTHON)


def test_process_on_a_gpu_of_another_replica_is_not_asked_about(
    nvml: Nvml, tmp_path: Path, sleeper: int
) -> None:
    nvml(lines=f"gpu.2.processes={sleeper}")
    assert run(config(tmp_path, OTHER)) == 0


def test_replica_without_gpus_holds_none(no_nvml: None, tmp_path: Path) -> None:
    assert run(config(tmp_path, UUID), replica=0) == 0


def test_gpu_that_cannot_be_asked_is_not_free(
    nvml: Nvml, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nvml(lines="gpu.2.lost=1")
    assert run(config(tmp_path, UUID)) == UNKNOWN
    assert "GPU is lost (15)" in capsys.readouterr().err


def test_node_without_a_driver_does_not_know(
    no_nvml: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(config(tmp_path, UUID)) == UNKNOWN
    assert_message(capsys.readouterr().err)


def test_driver_that_hangs_is_given_up(
    nvml: Nvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_free, "ANSWER_WITHIN_S", 1.0)
    nvml(lines="hang.nvmlDeviceGetComputeRunningProcesses_v3=1")
    assert run(config(tmp_path, UUID)) == UNKNOWN
    assert_message(capsys.readouterr().err)


@pytest.mark.parametrize("text", ["", "[]", '{"replicas": [{"index": 1}]}', '{"replicas": []}'])
def test_configuration_that_names_no_gpus_is_no_free_pass(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "serving.json"
    path.write_text(text)
    assert run(path) == UNKNOWN
    assert_message(capsys.readouterr().err)


def test_it_waits_for_a_process_that_is_about_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_free, "PAUSE_S", 0.0)
    answers = [[GpuHolder(UUID, "pid 1")], [GpuHolder(UUID, "pid 1")], []]

    def ask(uuids: Sequence[str]) -> gpu_free.Answer:
        assert uuids == [UUID]
        return answers.pop(0)

    assert wait([UUID], 3600, ask) == 0
    assert answers == []


@pytest.mark.parametrize(
    ("environment", "waits"),
    [
        ("", True),
        ("SERVICE_RESULT=exit-code", False),
        ("SERVICE_RESULT=success EXIT_CODE=exited EXIT_STATUS=0", True),
        ("SERVICE_RESULT=timeout MAINPID=4711", True),
    ],
)
def test_after_a_start_that_was_refused_nothing_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: str, waits: bool
) -> None:
    for name in ("SERVICE_RESULT", "EXIT_CODE", "EXIT_STATUS", "MAINPID"):
        monkeypatch.delenv(name, raising=False)
    for word in environment.split():
        monkeypatch.setenv(*word.split("="))
    monkeypatch.setattr(gpu_free, "PAUSE_S", 0.0)
    answers: list[gpu_free.Answer] = [[GpuHolder(UUID, "pid 1")], []]
    monkeypatch.setattr(gpu_free, "ask_reader", lambda uuids: answers.pop(0))
    arguments = ["--config", str(config(tmp_path, UUID)), "--replica", "1", "--deadline", "3600"]
    assert gpu_free.main(arguments) == (0 if waits else HELD)


def test_process_is_named_with_its_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "4711").mkdir()
    (tmp_path / "4711/comm").write_text("VLLM::Worker\n")
    group = "0::/system.slice/system-vllm.slice/vllm@1.service\n"
    (tmp_path / "4711/cgroup").write_text(group)
    monkeypatch.setattr(gpu_holders, "PROC", tmp_path)
    assert gpu_holders.process(4711) == "pid 4711 VLLM::Worker of vllm@1.service"


def test_asking_leaves_nothing_to_say_when_all_is_free(nvml: Nvml) -> None:
    nvml()
    assert ask_reader([UUID, OTHER]) == []
