"""What is read of the servers that are measured: age, kernels compiled, libraries."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from b200kit.node.lib import journal
from b200kit.node.serving import processes
from b200kit.node.state.view import Unmeasured
from tests.messages import assert_message

FACTS = "\n".join(
    ["InvocationID=abc", "ExecMainStartTimestampMonotonic={at}", "ControlGroup=/vllm"]
)


def answering(monkeypatch: pytest.MonkeyPatch, *started: float) -> None:
    """systemctl tells of units whose processes started then (monotonic seconds; 0 never)."""
    said = "\n\n".join(FACTS.format(at=int(at * 1e6)) for at in started)
    monkeypatch.setattr(processes, "command", lambda _: said)


def test_age_of_each_server_is_since_its_process_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "clock_gettime", lambda _: 5000.0)
    answering(monkeypatch, 4900.0, 4980.0)
    found = processes.ages_s(["vllm@0.service", "vllm@1.service"])
    assert found == (100.0, 20.0)


@pytest.mark.parametrize("names", [[], ["vllm@0.service"], ["a", "b", "c"]])
def test_age_that_is_not_known_is_unmeasured(
    names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, *([0.0] * (1 if len(names) == 1 else 2)))
    assert isinstance(processes.ages_s(names), Unmeasured)


def test_kernels_are_counted_over_all_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, 1.0, 1.0)
    line = "Triton kernel JIT during inference: _fwd. This causes a latency spike"
    monkeypatch.setattr(journal, "lines", lambda _: ["started", line])
    names = ["vllm@0.service", "vllm@1.service"]
    before = processes.compiled(names)
    assert before == 2
    monkeypatch.setattr(journal, "lines", lambda _: ["started", line, line, line])
    assert processes.grown(before, processes.compiled(names)) == 4


def test_a_journal_that_cannot_be_read_is_never_nothing_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering(monkeypatch, 1.0)

    def refuse(_: str) -> list[str]:
        raise OSError("the journal has nothing of invocation abc")

    monkeypatch.setattr(journal, "lines", refuse)
    found = processes.compiled(["vllm@0.service"])
    assert isinstance(found, Unmeasured)
    assert_message(found.reason)
    assert processes.grown(3, found) == processes.grown(found, 3) == found


def test_libraries_are_those_that_a_running_server_has_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, 1.0)
    monkeypatch.setattr(processes, "PROC", tmp_path)
    monkeypatch.setattr(processes, "members", lambda _: [7])
    packages = "opt/vllm/lib/python3.12/site-packages"
    process = tmp_path / "7"
    for name in ("torch-2.13.0", "nvidia_nccl_cu12-2.27.7", "numpy-2.4.0", "torch_extra-9"):
        (process / "root" / packages / f"{name}.dist-info").mkdir(parents=True)
    mapped = f"7f00-7f01 r-xp 0 00:1 9  /{packages}/torch/lib/libtorch.so{os.linesep}"
    (process / "maps").write_text(mapped * 2)
    assert processes.libraries(["vllm@0.service"]) == {"torch": "2.13.0", "nccl": "2.27.7"}


def test_libraries_of_a_server_that_does_not_run_are_unmeasured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering(monkeypatch, 1.0)
    monkeypatch.setattr(processes, "members", lambda _: [])
    found = processes.libraries(["vllm@0.service"])
    assert isinstance(found, Unmeasured)
    assert_message(found.reason)
