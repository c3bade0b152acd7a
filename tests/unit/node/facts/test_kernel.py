"""Kernel settings and the fabric manager's, from a file tree made for the test."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from b200kit.node.facts import fabric_manager, kernel

CPUFREQ = "sys/devices/system/cpu/cpufreq"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty /sys and /proc, and no fabric manager."""
    for module in (kernel, fabric_manager):
        monkeypatch.setattr(module, "PROC", tmp_path / "proc")
    monkeypatch.setattr(kernel, "SYS", tmp_path / "sys")
    monkeypatch.setattr(fabric_manager, "CONFIG", tmp_path / "fabricmanager.cfg")
    monkeypatch.setattr(fabric_manager, "PROGRAM", tmp_path / "nvlsm")
    (tmp_path / "proc/1").mkdir(parents=True)
    return tmp_path


def put(path: Path, content: str) -> None:
    """One small file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content + "\n")


def process(tree: Path, pid: int, name: str, state: str = "S") -> None:
    """One process."""
    put(tree / f"proc/{pid}/comm", name)
    put(tree / f"proc/{pid}/stat", f"{pid} ({name}) {state} 1 1 1")


def test_settings_are_read(tree: Path) -> None:
    put(tree / "proc/sys/kernel/numa_balancing", "1")
    put(tree / "proc/sys/vm/nr_hugepages", "16")
    put(tree / "sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never")
    put(tree / "proc/driver/nvidia/params", 'NvLinkDisable: 0\nExcludedGpus: ""\nRegistry: "a:b"')
    found = kernel.kernel()
    assert (found["numa_balancing"], found["hugepages"]) == (1, 16)
    assert found["transparent_hugepages"] == "always"
    options = {"NvLinkDisable": "0", "ExcludedGpus": "", "Registry": "a:b"}
    assert found["driver_options"] == options


def test_kernel_without_these_has_null_and_what_fails_costs_no_other(tree: Path) -> None:
    found = kernel.kernel()
    assert found["numa_balancing"] is found["transparent_hugepages"] is None
    assert found["driver_options"] is None
    assert found["governors"] == {}
    assert "unmeasured" in found["hugepages"]


def test_governors_are_counted_by_cpu_and_not_by_policy(tree: Path) -> None:
    for policy, cpus, name in ((0, "0 1", "performance"), (2, "2", "powersave"), (3, "3", "")):
        put(tree / CPUFREQ / f"policy{policy}/affected_cpus", cpus)
        put(tree / CPUFREQ / f"policy{policy}/scaling_governor", name or "performance")
    assert kernel.governors() == {"performance": 3, "powersave": 1}


def test_one_governor_that_cannot_be_read_leaves_no_half_count(tree: Path) -> None:
    put(tree / CPUFREQ / "policy0/affected_cpus", "0")
    put(tree / CPUFREQ / "policy0/scaling_governor", "performance")
    (tree / CPUFREQ / "policy1").mkdir()
    assert "unmeasured" in kernel.kernel()["governors"]


def test_huge_page_word_that_is_not_chosen_is_unmeasured(tree: Path) -> None:
    put(tree / "sys/kernel/mm/transparent_hugepage/enabled", "always madvise never")
    assert "unmeasured" in kernel.kernel()["transparent_hugepages"]


@pytest.mark.parametrize("limit", [65536, -1])
def test_locked_memory_is_the_limit_in_force(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, -1))
    assert kernel.kernel()["memlock_bytes"] == limit


@pytest.mark.parametrize(
    ("content", "mode"),
    [
        ("# FABRIC_MODE=2\nFABRIC_MODE=0\n", 0),
        ("FABRIC_MODE=0\nFABRIC_MODE = 1\nFABRIC_MODE_RESTART=0\n", 1),
        ("LOG_LEVEL=4\n", None),
    ],
)
def test_fabric_mode_is_the_last_one_set(tree: Path, content: str, mode: int | None) -> None:
    put(tree / "fabricmanager.cfg", content)
    assert fabric_manager.fabric_manager()["mode"] == mode


def test_subnet_manager_is_installed_where_its_program_can_be_run(tree: Path) -> None:
    program = tree / "nvlsm"
    assert fabric_manager.fabric_manager()["nvlsm_installed"] is False
    put(program, "#!/bin/sh")
    program.chmod(0o644)
    assert fabric_manager.installed() is False
    program.chmod(0o755)
    assert fabric_manager.installed() is True


def test_node_without_a_fabric_manager_has_no_mode(tree: Path) -> None:
    assert fabric_manager.mode() is None


@pytest.mark.parametrize(
    ("name", "state", "runs"),
    [("nvlsm", "S", True), ("nvlsm", "Z", False), ("nvlsm-exporter", "S", False)],
)
def test_subnet_manager_runs_only_as_a_living_process_of_that_name(
    tree: Path, name: str, state: str, runs: bool
) -> None:
    process(tree, 1, "systemd")
    process(tree, 71, name, state)
    (tree / "proc/90").mkdir()
    assert fabric_manager.running("nvlsm") is runs


def test_hidden_processes_are_not_taken_for_none(tree: Path) -> None:
    os.rmdir(tree / "proc/1")
    assert "hides" in fabric_manager.fabric_manager()["nvlsm_running"]["unmeasured"]
