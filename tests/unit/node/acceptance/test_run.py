"""A run on a node: what is asked for, each way in which a segment ends, and every interruption.

The tools are played by what they print; nothing is started but ssh-keygen.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import io
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import pytest

from b200kit.node.acceptance import counters, folder, machine, run, segment
from b200kit.node.acceptance.verdict import verdict
from b200kit.node.bandwidth.run import BandwidthRefused, alone
from b200kit.node.client.smoke_result import Extent, GpuFigures
from b200kit.node.facts import pci, storage, xid
from b200kit.node.latency.gpu_watch import GpuWatch
from b200kit.node.lib import boot_clock, documents, durable_files, hard_timeout, signature
from b200kit.node.lib.boot_clock import Moment
from b200kit.node.state.acceptance import SegmentLine
from b200kit.node.state.verdict import Verdict
from tests.subtests import in_subtests
from tests.unit import states
from tests.unit.node.acceptance import outputs
from tests.unit.node.acceptance.outputs import text

GPUS = 8
INTO = hard_timeout.into


class Killed(BaseException):
    """SIGKILL: nothing after it runs."""


class Node:
    """A node whose tools print what they are told to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = states.healthy()
        self.installed = {"nvbandwidth", "all_reduce_perf", "gpu_burn", "stress-ng", "fio",
                          "dcgmi", "nvidia-smi"}  # fmt: skip
        self.plays: dict[str, list[Callable[[BinaryIO, BinaryIO], int]]] = {}
        self.ran: list[str] = []
        self.boot_id, self.clock = "boot-1", 1000.0
        self.asked: list[list[str]] = []
        self.heat = [39] * GPUS
        self.free = 1 << 40

    def tool(
        self, argv: Sequence[str], within_s: float, out: BinaryIO, err: BinaryIO, *more: Any
    ) -> int:
        """In place of a process."""
        del more
        name = Path(argv[0]).name
        self.ran.append(name)
        self.clock += 1
        left = self.plays.get(name, [])
        if left:
            return left.pop(0)(out, err)
        out.write(self.well(name, argv).encode())
        return 0

    def well(self, name: str, argv: Sequence[str]) -> str:
        """What a tool prints on a good node."""
        return {
            "nvbandwidth": lambda: outputs.nvbandwidth(argv[-1]),
            "all_reduce_perf": lambda: outputs.all_reduce(),
            "gpu_burn": lambda: text("gpu-burn.txt"),
            "dcgmi": lambda: text("dcgm-4.6-pass.json"),
            "fio": lambda: text("fio-3.33.json"),
            "stress-ng": lambda: text(f"stress-ng-0.15.06-{'vm' if '--vm' in argv else 'cpu'}.txt"),
        }[name]()

    def command(self, argv: list[str], *more: Any) -> str:
        """In place of helper commands."""
        del more
        self.asked.append(argv[:2])
        if "--query-gpu" in argv[1]:
            return "".join(f"{i}, 0, {heat}\n" for i, heat in enumerate(self.heat))
        if argv[:2] == ["systemctl", "reboot"]:
            self.boot_id, self.clock = f"boot-{len(self.asked)}", 10.0
            raise Killed
        return ""

    def find(self, tool: str, more: Any = ()) -> str | None:
        """Where a tool lies."""
        del more
        return str(self.root / "bin" / tool) if tool in self.installed else None

    @property
    def path(self) -> Path:
        """The folder of the only run."""
        (path,) = folder.runs()
        return path

    @property
    def lines(self) -> list[SegmentLine]:
        """What it has so far."""
        return folder.read(self.path)[1]

    @property
    def verdict(self) -> Verdict:
        """What it was sealed with."""
        return documents.load(Verdict, self.path / folder.VERDICT)


class Watch(GpuWatch):
    """The GPUs while a load runs."""

    def __init__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

    def begin(self) -> None: ...

    def end(self) -> tuple[GpuFigures, ...]:
        """Well, all of them."""
        extent = Extent(1.0, 2.0, 3.0)
        return tuple(GpuFigures(i, 9, extent, extent, extent, 0) for i in range(GPUS))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node with every tool, whose clocks stand still between them."""
    return made(tmp_path, monkeypatch)


@contextmanager
def another(factory: pytest.TempPathFactory) -> Iterator[Node]:
    """The same of a case's own."""
    with pytest.MonkeyPatch.context() as patch:
        yield made(factory.mktemp("node"), patch)


def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node with what it stands on."""
    made = Node(tmp_path)
    (tmp_path / "bin").mkdir()
    for tool in made.installed:
        (tmp_path / "bin" / tool).write_text(tool)
    key = tmp_path / "key"
    keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
    subprocess.run(keygen, check=True)
    monkeypatch.setattr(signature.sign, "__defaults__", (key, None))
    monkeypatch.setattr(folder, "ROOT", tmp_path / "acceptance")
    reader = SimpleNamespace(result=lambda: made.state)
    monkeypatch.setattr(machine, "Worker", lambda *_: reader)
    monkeypatch.setattr(machine, "plausible", lambda state: state)
    monkeypatch.setattr(machine, "find", made.find)
    monkeypatch.setattr(run, "refuse_beside_replicas", lambda: None)
    monkeypatch.setattr(segment, "GpuWatch", Watch)
    monkeypatch.setattr(hard_timeout, "into", made.tool)
    for module in (machine, run, segment):
        monkeypatch.setattr(module, "command", made.command)
    monkeypatch.setattr(boot_clock, "now", lambda: Moment(made.boot_id, made.clock))
    monkeypatch.setattr(boot_clock, "seconds", lambda: made.clock)

    def sleep(seconds: float) -> None:
        made.clock += seconds

    monkeypatch.setattr(segment, "time", SimpleNamespace(sleep=sleep))
    usage = lambda _: SimpleNamespace(free=made.free)  # noqa: E731
    monkeypatch.setattr(shutil, "disk_usage", usage)
    log = tmp_path / "kernel.log"
    log.write_text("")
    monkeypatch.setenv(xid.OVERRIDE, str(log))
    for module, name in ((counters, "EDAC"), (storage, "BLOCK"), (pci, "SYS"), (machine, "DMI")):
        monkeypatch.setattr(module, name, tmp_path / name)
        (tmp_path / name).mkdir()
    for kind in ("ue", "ce"):
        put(tmp_path / "EDAC" / "mc0" / f"{kind}_count", "0")
    for disk in ("nvme0n1", "nvme1n1", "sr0", "nvme0n1p1"):
        put(tmp_path / "BLOCK" / disk / "size", "1000")
        (tmp_path / "BLOCK" / disk / ("partition" if "p1" in disk else "device")).mkdir()
    put(tmp_path / "DMI" / "product_name", "HGX B200")
    monkeypatch.setattr(machine, "EXPECT", tmp_path / "expect.json")
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return made


def put(path: Path, content: str) -> None:
    """A small file with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def call(*words: str, asked: object = None) -> int:
    """One command, with its standard input."""
    stdin = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(json.dumps(asked).encode()))
    try:
        return run.main(list(words))
    finally:
        sys.stdin = stdin


def begin(level: str = "smoke", floors: dict[str, Any] | None = None) -> int:
    """Ask for a run."""
    return call("begin", asked={"node": "n01", "level": level, "floors": floors or {}})


def prints(out: str, status: int = 0, err: str = "") -> Callable[[BinaryIO, BinaryIO], int]:
    """A tool that prints something else once."""

    def play(to: BinaryIO, errors: BinaryIO) -> int:
        to.write(out.encode())
        errors.write(err.encode())
        return status

    return play


def hangs(out: BinaryIO, err: BinaryIO) -> int:
    """A tool that is killed when its time is up."""
    del err
    out.write(b"so far")
    raise TimeoutError("it took too long")


def cannot(out: BinaryIO, err: BinaryIO) -> int:
    """A tool that cannot be started."""
    del out, err
    raise FileNotFoundError(errno.ENOENT, "no such file")


def is_sealed(node: Node) -> bool:
    """Whether every file is as it was signed, by ssh-keygen and sha256sum themselves."""
    allowed = node.root / "allowed"
    allowed.write_text(f"n01 {(node.root / 'key.pub').read_text()}")
    verify = ["ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", "n01",
              "-n", signature.ACCEPTANCE, "-s", str(node.path / folder.SIGNATURE)]  # fmt: skip
    content = (node.path / folder.SUMS).read_bytes()
    signed = subprocess.run(verify, input=content, capture_output=True, check=False)
    summed = subprocess.run(
        ["sha256sum", "-c", "--quiet", folder.SUMS], cwd=node.path, capture_output=True, check=False
    )
    named = [line.partition("  ")[2] for line in content.decode().splitlines()]
    return signed.returncode == summed.returncode == 0 and named == folder.members(node.path)


@in_subtests(("level", "steps"), [("smoke", 7), ("standard", 18)])
def test_run_on_a_good_node_is_sealed_and_fit(
    level: str, steps: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with another(tmp_path_factory) as node:
        assert (begin(level), call("run")) == (0, 0)
        assert [(one.outcome, one.attempt) for one in node.lines] == [("done", 1)] * steps
        assert (node.verdict.fit, is_sealed(node)) == ("fit", True)
        assert node.verdict == verdict(*folder.read(node.path))


@in_subtests(
    ("plays", "outcomes"),
    [
        ([prints(text("gpu-burn.txt").replace("GPU 6: OK", "GPU 6: FAULTY"))], ["failed", "done"]),
        ([prints(text("gpu-burn.txt").replace("GPU 6: OK", "GPU 6: FAULTY"))] * 2, ["failed"] * 2),
        ([hangs], ["hung", "done"]),
        ([hangs] * 3, ["hung"] * 2),
        ([prints("", 139, "Segmentation fault")], ["machinery", "done"]),
        ([cannot] * 2, ["machinery"] * 2),
        ([prints("")] * 3, ["machinery"] * 2),
        ([prints(text("gpu-burn.txt"), 1)] * 3, ["machinery"] * 2),
        ([prints(text("gpu-burn.txt")[:900])] * 3, ["machinery"] * 2),
    ],
    one_in=3,
)
def test_what_did_not_end_well_is_run_once_more_and_both_are_kept(
    plays: list[Any], outcomes: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    with another(tmp_path_factory) as node:
        node.plays["gpu_burn"] = list(plays)
        assert (begin(), call("run")) == (0, 0)
        own = [one for one in node.lines if one.test == "gemm-tensor"]
        assert [one.outcome for one in own] == outcomes
        assert [one.attempt for one in own] == list(range(1, len(outcomes) + 1))
        assert len({name for one in own for name in one.raw}) == 2 * len(outcomes)
        rest = "unmeasured" if outcomes[-1] == "machinery" else "fit"
        assert node.verdict.fit == ("unfit" if outcomes[0] in ("failed", "hung") else rest)


def test_tools_are_real_programs(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hard_timeout, "into", INTO)
    host = node.root / "bin" / "nvbandwidth"
    host.write_text(f"#!/bin/sh\npwd >&2\nexec cat {node.root}/$5\n")
    (node.root / "table").write_text(outputs.all_reduce())
    crashes = node.root / "bin" / "all_reduce_perf"
    crashes.write_text(f"#!/bin/sh\ncat {node.root}/table\nkill -9 $$\n")
    for program in (host, crashes):
        program.chmod(0o755)
    for test in (outputs.PEER, "host_to_device_memcpy_ce", "device_to_host_memcpy_ce"):
        (node.root / test).write_text(outputs.nvbandwidth(test))
    assert (begin(), call("run")) == (0, 0)
    outcomes = [(one.test, one.outcome) for one in node.lines]
    assert outcomes[1:4] == [
        (test, "done") for test in ("gpu-to-gpu", "host-to-gpu", "gpu-to-host")
    ]
    assert outcomes[4:6] == [("all-reduce", "machinery")] * 2
    assert (node.path / folder.RAW / "002-gpu-to-gpu-1.err").read_text() == f"{host.parent}\n"


def test_missing_tool_and_what_one_gpu_has_not(node: Node) -> None:
    node.installed -= {"nvbandwidth"}
    node.state["gpus"] = node.state["gpus"][:1]
    node.plays["gpu_burn"] = [prints("", 1)] * 2
    assert (begin(), call("run")) == (0, 0)
    outcomes = {one.test: one.outcome for one in node.lines}
    assert outcomes["host-to-gpu"] == "missing"
    assert outcomes.keys() >= {"facts", "host-to-gpu", "gemm-tensor", "facts-after"}
    assert not outcomes.keys() & {"gpu-to-gpu", "all-reduce"}
    assert {"acceptance.gpu-to-gpu", "acceptance.all-reduce"} == set(node.verdict.not_applicable)


def test_test_that_a_tool_waives_on_eight_gpus_is_unmeasured(node: Node) -> None:
    node.plays["nvbandwidth"] = [
        prints(outputs.nvbandwidth(outputs.PEER).replace("Passed", "Waived"))
    ]
    assert (begin(), call("run")) == (0, 0)
    assert [one.outcome for one in node.lines][:2] == ["done", "not applicable"]
    assert node.verdict.fit == "unmeasured"


def test_hung_diagnostic_frees_the_gpus(node: Node) -> None:
    node.plays["dcgmi"] = [hangs]
    assert (begin("standard"), call("run")) == (0, 0)
    assert ["systemctl", "try-restart"] in node.asked


LAST = 1 + 3 * 7 + 3


@in_subtests("point", range(1, LAST + 1), one_in=5)
def test_run_killed_at_any_point_goes_on_and_counts_nothing_twice(
    point: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with another(tmp_path_factory) as node, pytest.MonkeyPatch.context() as patch:
        killed_at(point, patch)
        with pytest.raises(Killed):
            assert (begin(), call("run")) == (0, 0)
        node.clock -= 500  # and the clock is stepped
        assert run.found_state().status == ("none" if point == 1 else "interrupted")
        assert (begin(), call("run")) == (0, 0)
        assert [one.step for one in node.lines] == list(range(1, 8))
        assert (node.verdict.fit, is_sealed(node)) == ("fit", True)
        assert run.found_state().status == "finished"


def killed_at(point: int, patch: pytest.MonkeyPatch) -> None:
    """Kill once: before a file is put in its place, before, within or after a line."""
    append, replace = folder.append, durable_files.replace
    left = iter(range(1, LAST + 1))

    def is_now() -> bool:
        return next(left, 0) == point

    def appended(path: Path, line: SegmentLine) -> None:
        if is_now():
            raise Killed
        if is_now():
            data = documents.to_bytes(line, indent=None)
            with (path / folder.LINES).open("ab") as file:
                file.write(data[: len(data) // 2])
            raise Killed
        append(path, line)
        if is_now():
            raise Killed

    def replaced(path: Path, content: bytes) -> None:
        if is_now():
            raise Killed
        replace(path, content)

    patch.setattr(folder, "append", appended)
    patch.setattr(durable_files, "replace", replaced)


def test_counted_reboots_are_completed_by_the_boots_that_follow(node: Node) -> None:
    assert begin("acceptance") == 0
    boots = 0
    while True:
        try:
            assert call("run") == 0
            break
        except Killed:
            boots += 1
            assert node.lines[-1].test == "reboot"
    own = [one for one in node.lines if one.test in ("reboot", "boot")]
    assert [one.test for one in own] == ["reboot", "boot"] * 3
    assert (boots, len({one.boot_id for one in own}), node.verdict.fit) == (3, 4, "fit")


def test_gpu_that_a_boot_lost_is_said_and_nothing_more_is_run(node: Node) -> None:
    assert begin("acceptance") == 0
    with pytest.raises(Killed):
        call("run")
    node.state["gpus"] = node.state["gpus"][:7]
    assert (call("run"), node.lines[-1].test) == (2, "boot")
    assert call("stop") == 0
    assert node.verdict.fit == "unfit"
    assert {one.check for one in node.verdict.blocking if one.status.value == "fail"} == {
        "acceptance.boot"
    }


def test_reboot_that_does_not_happen_is_machinery(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "restart", lambda within_s: None)
    assert (begin("acceptance"), call("run")) == (0, 0)
    assert {one.outcome for one in node.lines if one.test == "boot"} == {"machinery"}
    assert node.verdict.fit == "unmeasured"


@in_subtests("change", ["gpus", "driver", "kernel", "tool"])
def test_segments_of_another_machine_or_tool_do_not_count(
    change: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with another(tmp_path_factory) as node, pytest.MonkeyPatch.context() as patch:
        assert begin() == 0
        node.plays["all_reduce_perf"] = [killed]
        with pytest.raises(Killed):
            call("run")
        kept = node.lines
        if change == "gpus":
            node.state["gpus"][2]["uuid"] = "GPU-other"
        elif change == "driver":
            node.state["nvml"]["driver_version"] = "590.1"
        elif change == "kernel":
            patch.setattr(platform, "release", lambda: "6.2")
        else:
            (node.root / "bin" / "gpu_burn").write_text("another")
        assert (call("run"), node.lines) == (2, kept)


def killed(out: BinaryIO, err: BinaryIO) -> int:
    """The machine goes down in the middle of a tool."""
    del err
    out.write(b"half of it")
    raise Killed


def test_full_disk_stops_the_run_in_one_line_and_it_goes_on_later(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fills(out: BinaryIO, err: BinaryIO) -> int:
        del err
        node.free = 0
        out.write(b"half of it")
        return 1

    node.plays["all_reduce_perf"] = [fills]
    assert begin() == 0
    assert (call("run"), len(node.lines)) == (1, 4)
    assert len(capsys.readouterr().err.strip().splitlines()) == 5 + 1
    started = len(node.ran)
    assert (call("run"), len(node.lines), len(node.ran)) == (1, 4, started)
    node.free = 1 << 40

    def full(handle: int) -> None:
        del handle
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    content = (node.path / folder.LINES).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert call("run") == 1
    assert (node.path / folder.LINES).read_bytes() == content
    assert call("run") == 0
    assert [one.step for one in node.lines] == list(range(1, 8))
    assert (node.verdict.fit, is_sealed(node)) == ("fit", True)


def test_cool_down_that_never_comes_is_machinery(node: Node) -> None:
    assert begin("standard") == 0
    node.heat[4] = 50  # 39 at rest
    assert call("run") == 0
    assert [one.outcome for one in node.lines if one.test == "cool-down"] == ["machinery"] * 2
    assert node.verdict.fit == "unmeasured"


@in_subtests(
    ("said", "cool"),
    [("0, 0, 40\n1, 0, 40\n", True), ("0, 0, 50\n1, 0, 50", True), ("0, 0, 51\n1, 0, 40", False),
     ("0, 1, 40\n1, 0, 40", False)],
)  # fmt: skip
def test_gpus_are_at_rest_where_none_copies_and_none_is_warm(said: str, cool: bool) -> None:
    assert segment.is_at_rest(said, {"GPU 0": 40, "GPU 1": 40}, 2) is cool


@in_subtests("said", ["0, 0, 40", "0, [N/A], 40\n1, 0, 40", "0, 0, 40\n2, 0, 40", ""])
def test_gpu_of_which_nothing_is_known_is_not_at_rest(said: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        segment.is_at_rest(said, {"GPU 0": 40, "GPU 1": 40}, 2)


def test_begin_goes_on_with_the_same_request_and_refuses_another(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    assert begin() == 0
    first = capsys.readouterr().out
    assert (begin(), capsys.readouterr().out) == (0, first)
    assert begin("standard") == 2
    limit = {"value": 1, "unit": "GB/s", "holds": "at least", "source": "s", "date": "d",
             "kind": "measured"}  # fmt: skip
    assert begin(floors={"gpu_to_gpu_gb_per_s": limit}) == 2
    node.state["gpus"][0]["uuid"] = "GPU-other"
    assert begin() == 2
    assert len(folder.runs()) == 1


@in_subtests("why", ["replica", "nvml", "gpus", "request", "level"])
def test_begin_is_refused(why: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with another(tmp_path_factory) as node, pytest.MonkeyPatch.context() as patch:
        if why == "replica":

            def refuse() -> None:
                raise BandwidthRefused("vllm@0.service must be stopped first")

            patch.setattr(run, "refuse_beside_replicas", refuse)
        elif why == "nvml":
            node.state["nvml"] = node.state["gpus"] = {"unmeasured": "it did not answer"}
        elif why == "gpus":
            put(node.root / "expect.json", '{"schema": "b200kit/expect/1", "gpu_count": 9}')
        asked: object = {
            "node": "n01",
            "level": "long" if why == "level" else "smoke",
            "floors": {},
        }
        assert call("begin", asked={} if why == "request" else asked) == 2
        assert folder.runs() == []


def test_diagnostic_asks_for_what_the_node_must_have_and_says_which_entry_held(node: Node) -> None:
    expected = {"nvlink.links": {"value": 18}, "pcie.generation": {"value": 5}}
    expect = {"schema": "b200kit/expect/1", "gpu_count": 8, "hardware": {"expect": expected}}
    put(node.root / "expect.json", json.dumps(expect))
    for gpu in node.state["gpus"]:
        device = node.root / "SYS" / "bus/pci/devices" / gpu["pci_address"]
        put(device / "device", "0x2901\n")
        put(device / "subsystem_device", "0x20da\n")
    assert (begin("standard"), call("run")) == (0, 0)
    (step,) = (one for one in folder.read(node.path)[0].steps if one.test == "dcgm-r2")
    assert step.argv[-6:] == (
        "-t", "240", "-n", "gpu:8", "-p",
        "pcie.gpu_nvlinks_expected_up=18;pcie.h2d_d2h_single_pinned.min_pci_generation=5",
    )  # fmt: skip
    (ended,) = (one for one in node.lines if one.test == "dcgm-r2")
    floors = {one.value for one in ended.values if one.metric == "dcgm_memory_floor_mb_per_s"}
    assert ("B200 DevId 20da" in ended.why, floors) == (True, {4356249.0})


def test_archive_is_the_sealed_folder(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    assert begin() == 0
    assert call("archive", node.path.name) == 2
    assert call("run") == 0
    capsys.readouterr()
    assert call("archive", node.path.name) == 0
    *encoded, described = capsys.readouterr().out.splitlines()
    packed = base64.b64decode("".join(encoded))
    assert json.loads(described) == {"sha256": hashlib.sha256(packed).hexdigest()}
    expected = node.path
    shutil.move(expected, node.root / "kept")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder.ROOT, filter="data")
    assert (node.path, is_sealed(node)) == (expected, True)


def test_state_says_how_far_a_run_is(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.found_state().status == "none"
    assert begin() == 0
    node.plays["all_reduce_perf"] = [killed]
    with pytest.raises(Killed):
        call("run")
    capsys.readouterr()
    with alone(folder.ROOT / ".lock"):
        assert call("state") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "b200kit/acceptance-state/1"
    keys = ("status", "level", "done", "of", "test", "segment", "left_s")
    assert [found[key] for key in keys] == ["running", "smoke", 4, 7, "all-reduce", 1, 130.0]
    assert len(found["last"]) == 4


def test_run_waits_for_replicas_that_a_reboot_started(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise BandwidthRefused("vllm@0.service must be stopped first")

    assert begin() == 0
    monkeypatch.setattr(run, "refuse_beside_replicas", refuse)
    assert (call("run"), node.lines) == (2, [])


def test_stop_seals_what_there_is(node: Node) -> None:
    assert begin() == 0
    node.plays["all_reduce_perf"] = [killed]
    with pytest.raises(Killed):
        call("run")
    assert call("stop") == 0
    assert (node.verdict.fit, is_sealed(node)) == ("unmeasured", True)
    assert (call("run"), node.ran.count("all_reduce_perf")) == (0, 1)


def test_signature_is_under_an_acceptance_run(
    node: Node, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert call("sign", asked={}) == 0
    assert capsysbinary.readouterr().out.startswith(b"-----BEGIN SSH SIGNATURE")
    del node
