"""The measurement on the node, with stand-ins for the tools as real programs on PATH."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.bandwidth import run as bandwidth
from b200kit.node.bandwidth import tests as tests
from b200kit.node.bandwidth.tests import ALL_REDUCE, LOCAL, PEER, TO_GPU, TO_HOST
from b200kit.node.checks.judge import judge, registered
from b200kit.node.lib import managed_files, readings
from b200kit.node.state.verdict import Action, Verdict
from tests.messages import assert_message
from tests.unit import states

TOOLS = Path(__file__).parents[1] / "tools"
ALL = {PEER: 56, TO_GPU: 8, TO_HOST: 8, LOCAL: 8, ALL_REDUCE: 6}


class Reader:
    """Stands in for the NVML worker: the recorded healthy node."""

    def __init__(self, timeout: float) -> None:
        del timeout

    def result(self) -> dict[str, Any]:
        """NVML's parts of the state."""
        return states.healthy()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with the stand-ins on it, and this Python for them."""
    folder = tmp_path / "bin"
    shutil.copytree(TOOLS, folder)
    (folder / "python3").symlink_to(sys.executable)
    script(folder, "systemctl", "exit 0")
    for program in folder.glob("[!p]*"):
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("CHILD", str(tmp_path / "child"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setattr(bandwidth, "PLACES", dict.fromkeys(tests.PLACES, ()))
    return folder


@pytest.fixture
def node(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node with the stand-ins; the path of its result."""
    del programs
    monkeypatch.setattr(bandwidth, "Worker", Reader)
    monkeypatch.setattr(bandwidth, "STATE_DIRECTORY", tmp_path / "state")
    monkeypatch.setattr(bandwidth, "claim_stdout", lambda: os.dup(1))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return tmp_path / "state" / "bandwidth.json"


def script(folder: Path, name: str, text: str) -> None:
    """Put a shell script on the PATH."""
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def counts(document: dict[str, Any]) -> dict[str, int]:
    """How many results each test has."""
    found = [result["test"] for result in document["results"]]
    return {test: found.count(test) for test in found}


def measured(path: Path) -> dict[str, Any]:
    """Run the measurement and read what it left."""
    assert bandwidth.main([]) == 0
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def judged(document: dict[str, Any], mode: str = "required") -> Verdict:
    """The verdict on the bandwidth of the healthy node with this result."""
    state = states.healthy()
    state["notes"]["bandwidth"] = document
    state["host"]["boot_id"] = document["boot_id"]
    checks = {name: run for name, run in registered().items() if name.startswith("bandwidth.")}
    return judge({**states.expectation(), "bandwidth": mode}, state, checks)


def blocking(document: dict[str, Any], mode: str = "required") -> list[tuple[str, str]]:
    """Findings that keep that node from serving."""
    return [(finding.check, finding.status.value) for finding in judged(document, mode).blocking]


def gone(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        return readings.text(f"/proc/{pid}/stat").rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_well_node_leaves_one_document_that_passes(
    node: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    document = measured(node)
    assert counts(document) == ALL
    assert (document["missing"], document["failed"]) == ({}, {})
    assert document["schema"] == "b200kit/bandwidth/1"
    assert document["driver_version"] == states.healthy()["nvml"]["driver_version"]
    assert document["gpu_uuids"] == [gpu["uuid"] for gpu in states.healthy()["gpus"]]
    assert document["boot_id"] == readings.text("/proc/sys/kernel/random/boot_id")
    assert judged(document).fit == "fit"
    assert {finding.action for finding in judged(document).findings} == {Action.NONE}
    assert capfd.readouterr().out == "86 results\n"
    assert managed_files.notes(node.parent)["bandwidth"] == document


@pytest.mark.usefixtures("node")
def test_document_is_printed_when_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    assert bandwidth.main(["--json"]) == 0
    assert counts(json.loads(capfd.readouterr().out)) == ALL


def test_slow_tool_is_waited_for(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVBANDWIDTH", f"slow:{PEER}")
    assert counts(measured(node)) == ALL


@pytest.mark.process
def test_hanging_tool_is_killed_with_its_children_and_the_others_still_run(
    node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVBANDWIDTH", f"hang:{TO_GPU}")
    short = [replace(p, timeout_s=8) if p.test == TO_GPU else p for p in tests.PROBES]
    monkeypatch.setattr(bandwidth, "PROBES", short)
    document = measured(node)
    why = "nvbandwidth: it did not end within 8 s and was killed"
    assert document["failed"] == {TO_GPU: why}
    assert counts(document) == {test: n for test, n in ALL.items() if test != TO_GPU}
    assert gone(int((tmp_path / "child").read_text()))
    assert blocking(document, "when-installed") == [("bandwidth.host", "unmeasured")]


@pytest.mark.parametrize("mode", ["fail", "crash", "silent", "malformed"])
def test_tool_without_a_result_is_not_measured_and_says_why(
    node: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("NVBANDWIDTH", f"{mode}:{LOCAL}")
    document = measured(node)
    assert_message(document["failed"][LOCAL])
    assert blocking(document, "when-installed") == [("bandwidth.memory", "unmeasured")]


def test_wrong_data_count_although_the_tools_exit_with_an_error(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVBANDWIDTH", f"wrong:{TO_HOST}")
    monkeypatch.setenv("ALL_REDUCE", "wrong")
    document = measured(node)
    assert document["failed"] == {}
    assert sorted(blocking(document)) == [
        ("bandwidth.all-reduce", "fail"),
        ("bandwidth.host", "fail"),
    ]


@pytest.mark.parametrize(
    "mode",
    ["fail", "cut"],
)
def test_all_reduce_that_stops_is_not_measured(
    node: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("ALL_REDUCE", mode)
    document = measured(node)
    assert_message(document["failed"][ALL_REDUCE])
    assert blocking(document) == [("bandwidth.all-reduce", "unmeasured")]


def test_error_status_spoils_a_result_that_looks_whole(programs: Path, node: Path) -> None:
    (programs / "real").write_text((programs / "nvbandwidth").read_text())
    script(programs, "nvbandwidth", f'"{sys.executable}" "{programs}/real" "$@"; exit 9')
    document = measured(node)
    assert counts(document) == {ALL_REDUCE: 6}
    assert_message(document["failed"][PEER])


def test_missing_tools_are_named_and_pass_only_where_the_inventory_lets_them(
    programs: Path, node: Path
) -> None:
    (programs / "nvbandwidth").unlink()
    (programs / "all_reduce_perf").unlink()
    document = measured(node)
    assert document["missing"] == dict.fromkeys(tests.PLACES, "not installed")
    assert document["results"] == []
    assert blocking(document, "when-installed") == []
    assert {status for _, status in blocking(document)} == {"unmeasured"}
    assert len(blocking(document)) == 4


def test_tool_off_the_path_is_found_where_it_is_usually_installed(
    programs: Path, tmp_path: Path, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = tmp_path / "all_reduce_perf"
    (programs / "all_reduce_perf").rename(moved)
    places = {"nvbandwidth": (), "all_reduce_perf": ("/nowhere", str(moved))}
    monkeypatch.setattr(bandwidth, "PLACES", places)
    assert counts(measured(node)) == ALL


@pytest.mark.parametrize(
    "answer",
    [
        "echo vllm@0.service loaded active running vLLM",
        "echo vllm@1.service loaded activating start-post vLLM",
        "exit 1",
    ],
)
def test_nothing_is_measured_beside_a_replica(
    programs: Path, node: Path, capfd: pytest.CaptureFixture[str], answer: str
) -> None:
    script(programs, "systemctl", answer)
    assert bandwidth.main([]) == 2
    assert_message(capfd.readouterr().err)
    assert not node.exists()


def test_stopped_replica_is_no_hindrance(programs: Path, node: Path) -> None:
    script(programs, "systemctl", "echo vllm@0.service loaded failed failed vLLM")
    assert counts(measured(node)) == ALL


TERMINATED = """
import sys
from pathlib import Path
from b200kit.node.bandwidth import run as bandwidth
from tests.unit.node.bandwidth.test_run import Reader
bandwidth.Worker, bandwidth.STATE_DIRECTORY = Reader, Path(sys.argv[1])
sys.exit(bandwidth.main([]))
"""


@pytest.mark.process
@pytest.mark.usefixtures("programs")
def test_tool_does_not_outlive_a_measurement_that_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVBANDWIDTH", f"hang:{PEER}")
    root = str(Path(__file__).parents[4])
    argv = [sys.executable, "-c", TERMINATED, str(tmp_path / "state")]
    process = subprocess.Popen(argv, cwd=root, stderr=subprocess.DEVNULL)
    child = tmp_path / "child"
    end = time.monotonic() + 300
    while not (child.exists() and child.read_text()) and time.monotonic() < end:
        time.sleep(0.05)
    process.terminate()
    assert process.wait(timeout=300) == 143
    assert gone(int(child.read_text()))
    assert not (tmp_path / "state" / "bandwidth.json").exists()


def test_two_never_measure_at_a_time(node: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with bandwidth.alone(node.parent / ".bandwidth.lock"):
        assert bandwidth.main([]) == 2
    assert_message(capfd.readouterr().err)
    assert counts(measured(node)) == ALL


def test_without_a_driver_nothing_is_measured_and_the_last_result_stays(
    node: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    kept = measured(node)
    nothing = {"nvml": {"unmeasured": "not loaded"}, "gpus": []}
    monkeypatch.setattr(Reader, "result", lambda _: nothing)
    assert bandwidth.main([]) == 2
    assert_message(capfd.readouterr().err)
    assert json.loads(node.read_text()) == kept
