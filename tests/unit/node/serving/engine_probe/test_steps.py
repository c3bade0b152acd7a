"""The steps of the probe: each passes on this machine, and fails by a fault that is there."""

from __future__ import annotations

import errno
import socket
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.serving.engine_probe import network
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.node.serving.engine_probe.places import MMAP, SOCKET, step

_ON_CPUS = (
    "loopback", "netlink", "interface", "shared-memory", "executable-memory", "cache",
    "compiler", "headers",
)  # fmt: skip
_NO_LO = {"place": 'unshare -n true && exec unshare -n "$@"'}
_FAMILY = (errno.EAFNOSUPPORT,)
# Step, the fault, and a word of what to do.
FAULTS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("loopback", _NO_LO, "ip link set lo up"),
    ("loopback", {"refused": (SOCKET, 0, socket.AF_INET, *_FAMILY)}, "AF_INET"),
    ("netlink", {"refused": (SOCKET, 0, socket.AF_NETLINK, *_FAMILY)}, "AF_NETLINK"),
    ("interface", {"GLOO_SOCKET_IFNAME": "none0"}, "GLOO_SOCKET_IFNAME must name lo"),
    ("interface", {"unset": ["NCCL_SOCKET_IFNAME"]}, "NCCL_SOCKET_IFNAME must name lo"),
    ("interface", {"NCCL_SOCKET_IFNAME": "^lo"}, "NCCL_SOCKET_IFNAME must name lo"),
    ("shared-memory", {"place": "mount -t tmpfs -o size=1m none /dev/shm"}, "448 MiB"),
    ("shared-memory", {"place": "mount -t tmpfs -o ro none /dev/shm"}, "ShmSize="),
    ("locked-memory", {"kind": "cuda", "place": "ulimit -l 64"}, "LimitMEMLOCK="),
    ("executable-memory", {"refused": (MMAP, 2, 7, errno.EPERM)}, "MemoryDenyWriteExecute="),
    ("cache", {"place": "mount -t tmpfs -o noexec none $HOME"}, "noexec"),
    ("cache", {"place": "mount -t tmpfs -o ro none $HOME"}, "CacheDirectory="),
    ("cache", {"TMPDIR": "/proc/none"}, "RuntimeDirectory="),
    ("compiler", {"PATH": "/none"}, "PATH lacks /usr/bin"),
    ("compiler", {"CC": "none"}, "CC names no program"),
    ("compiler", {"CUDA_HOME": "/none"}, "CUDA_HOME is wrong"),
    ("headers", {"place": f"mount -t tmpfs none {sysconfig.get_path('include')}"}, "python3-dev"),
    ("cuda", {"kind": "cuda"}, "CUDA_VISIBLE_DEVICES"),
    ("cuda", {"kind": "cuda", "CUDA_VISIBLE_DEVICES": "GPU-1"}, "libcuda1"),
)


@pytest.mark.process
@in_subtests("name", _ON_CPUS)
def test_step_passes_where_nothing_is_wrong(name: str, tmp_path: Path) -> None:
    assert step(name, tmp_path)["result"] == "passed"


@pytest.mark.process
@in_subtests(("name", "fault", "remedy"), FAULTS)
def test_step_names_what_is_wrong(
    name: str, fault: dict[str, Any], remedy: str, tmp_path: Path
) -> None:
    answer = step(name, tmp_path, **fault)
    assert answer["result"] == "failed", answer
    assert remedy in answer["remedy"]


@pytest.mark.process
@in_subtests(
    ("name", "kind"),
    [
        *((name, "cpu") for name in ("locked-memory", "cuda", "triton", "flashinfer")),
        *((name, "stand-in") for name in ("compiler", "headers", "all-reduce")),
        # This Python has neither.
        *((name, "cuda") for name in ("triton", "flashinfer")),
    ],
)
def test_what_an_engine_does_not_need_is_said_to_be_so(
    name: str, kind: str, tmp_path: Path
) -> None:
    answer = step(name, tmp_path, kind=kind)
    assert (answer["result"], answer["remedy"]) == ("not applicable", "")
    assert_message(answer["seen"])


def test_one_gpu_reduces_with_nobody(tmp_path: Path) -> None:
    answer = step("all-reduce", tmp_path, kind="cuda", ranks=1)
    assert answer["result"] == "not applicable"


@pytest.mark.process
def test_engine_that_cannot_be_imported_is_a_failed_step(tmp_path: Path) -> None:
    answer = step("all-reduce", tmp_path)
    assert answer["result"] == "failed"
    assert "torch" in answer["seen"]


@pytest.mark.process
def test_nothing_is_left_behind(tmp_path: Path) -> None:
    for name in ("cache", "headers"):
        step(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


@in_subtests(
    ("pattern", "chosen"),
    [
        ("lo", ["lo"]),
        ("ens", ["ens1", "ens10"]),
        ("=ens1", ["ens1"]),
        ("ens10,lo", ["lo", "ens10"]),
        ("^ens", ["lo"]),
        ("^=ens1", ["lo", "ens10"]),
        ("eth", []),
    ],
)
def test_interfaces_are_chosen_as_nccl_does(pattern: str, chosen: list[str]) -> None:
    assert network.named(pattern, ["lo", "ens1", "ens10"]) == chosen


def test_addresses_are_those_of_the_kernel() -> None:
    assert "127.0.0.1" in network.addresses()["lo"]
    assert all(name in network.addresses() for _, name in socket.if_nameindex())
