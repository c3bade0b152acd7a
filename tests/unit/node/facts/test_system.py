"""What the operating system's tools print, as readings."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.facts import processes, storage, system

SHOW = """\
LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled
Result=success
MainPID=812
InvocationID=0123456789abcdef0123456789abcdef
NRestarts=2
ControlGroup=/system.slice/nvidia-fabricmanager.service

LoadState=not-found
ActiveState=inactive
SubState=dead
UnitFileState=
Result=success
NRestarts=0
MainPID=0
ControlGroup=
"""
DPKG = """\
bash\t5.2.15-2+b8\tii 
nvidia-open\t580.126.20-1\thi 
libnvidia-nscq\t580.126.20-1\trc 
nvlsm\t2025.10.11-1\tiU 
cuda-keyring\t1.1-1\tii 
"""


def answering(monkeypatch: pytest.MonkeyPatch, answer: str) -> list[list[str]]:
    """Let helper commands print `answer`; the calls made."""
    calls: list[list[str]] = []

    def command(argv: list[str]) -> str:
        calls.append(argv)
        return answer

    monkeypatch.setattr(system, "command", command)
    return calls


def test_many_units_are_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = answering(monkeypatch, SHOW)
    units = system.units(["a.service", "b.service", "a.service"])
    assert len(calls) == 1
    assert units["a.service"]["active"] == "active"
    assert (units["a.service"]["main_pid"], units["a.service"]["n_restarts"]) == (812, 2)
    assert units["b.service"]["load"] == "not-found"


def test_units_that_do_not_match_the_question_are_unmeasured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering(monkeypatch, SHOW)
    assert "unmeasured" in system.units(["a.service"])["a.service"]


def test_packages_are_the_asked_and_the_vendors(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = answering(monkeypatch, DPKG)
    packages = system.packages(["bash", "absent", "nvlsm"])
    assert len(calls) == 1
    assert packages["nvidia-open"] == {"version": "580.126.20-1", "status": "ii", "hold": True}
    assert packages["bash"]["hold"] is False
    assert packages["absent"] is None
    assert "libnvidia-nscq" not in packages
    assert "cuda-keyring" in packages


def test_half_installed_package_that_was_asked_for_shows_its_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering(monkeypatch, DPKG)
    assert system.packages(["nvlsm"])["nvlsm"]["status"] == "iU"
    assert system.packages(["libnvidia-nscq"])["libnvidia-nscq"] is None


def test_removed_but_held_package_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, "nvlsm\t1-1\thc \n")
    assert system.packages(["nvlsm"])["nvlsm"] is None


@pytest.mark.parametrize(
    ("word", "address"),
    [
        ("0100007F:1F40", "127.0.0.1:8000"),
        ("00000000:0016", "0.0.0.0:22"),
        ("00000000000000000000000000000000:0016", "[::]:22"),
        ("00000000000000000000000001000000:1F40", "[::1]:8000"),
    ],
)
def test_kernel_address_is_read(word: str, address: str) -> None:
    assert system.endpoint(word) == address


def test_disk_of_a_path_to_be_is_that_of_its_parent() -> None:
    reading: dict[str, Any] = system.disks(["/no/such/path"])["/no/such/path"]
    assert reading["total_bytes"] >= reading["free_bytes"] > 0


def test_host_identity_is_read() -> None:
    host = system.host()
    assert host["hostname"]
    assert set(host["os"]) == {"id", "version_id", "pretty"}


def test_processes_of_a_unit_that_does_not_run_are_none() -> None:
    assert processes.processes({"a.service": {"control_group": ""}}, ["a.service"]) == []


def test_processes_of_a_unit_that_was_not_read_are_unmeasured() -> None:
    units = {"a.service": {"unmeasured": "no bus"}}
    assert processes.processes(units, ["a.service"])[0]["pid"] == {"unmeasured": "no bus"}


def test_limits_of_a_process_are_those_that_it_meets() -> None:
    limits = {"memlock": resource.RLIMIT_MEMLOCK, "nofile": resource.RLIMIT_NOFILE}
    own = {name: resource.getrlimit(kind)[0] for name, kind in limits.items()}
    found = processes.process("a.service", os.getpid())
    assert found["soft_limits"] == own


def test_options_of_the_root_are_those_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {"device": "/dev/md0", "fstype": "ext4", "options": "ro,relatime"}
    monkeypatch.setattr(storage, "mount", lambda path: shown if path == "/" else None)
    assert system.host()["root_options"] == "ro,relatime"


@pytest.mark.parametrize(
    ("line", "nodes"),
    [
        ("00400000 default file=/usr/bin/x mapped=1 N0=1", ""),
        ("00400000 bind:0-1 file=/usr/bin/x", "0-1"),
        ("00400000 bind=static:3 anon=1", "3"),
        ("00400000 prefer:0", ""),
    ],
)
def test_memory_policy_is_read(line: str, nodes: str) -> None:
    match = processes.BOUND.search(line)
    assert (match.group(1) if match else "") == nodes


def test_firmware_says_which_machine_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "DMI", str(tmp_path))
    assert "unmeasured" in system.host()["product_uuid"]
    (tmp_path / "product_uuid").write_text("4C4C4544-0053-4D10-8052-B6C04F373033\n")
    (tmp_path / "product_serial").write_text("7SMR703 \n")
    host = system.host()
    assert host["product_uuid"] == "4c4c4544-0053-4d10-8052-b6c04f373033"
    assert host["product_serial"] == "7SMR703"
