"""NUMA nodes, CPUs and modules from a file tree made for the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit.node.facts import numa


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty /sys and /proc."""
    monkeypatch.setattr(numa, "SYS", tmp_path / "sys")
    monkeypatch.setattr(numa, "PROC", tmp_path / "proc")
    for name in ("devices/system/node", "devices/system/cpu", "module"):
        (tmp_path / "sys" / name).mkdir(parents=True)
    (tmp_path / "proc").mkdir()
    return tmp_path / "sys"


def write(directory: Path, **files: str) -> Path:
    """A directory of small files."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name).write_text(content + "\n")
    return directory


def test_numa_nodes_without_cpus_or_memory_are_listed(tree: Path) -> None:
    nodes = tree / "devices/system/node"
    none, some = "Node 10 MemTotal:  0 kB", "Node 2 MemTotal:  64 kB\nNode 2 MemFree: 1 kB"
    write(nodes / "node10", cpulist="", meminfo=none, distance="17 10")
    write(nodes / "node2", cpulist="0-3", meminfo=some, distance="10 17")
    (nodes / "power").mkdir()
    assert numa.numa() == [
        {"id": 2, "cpus": "0-3", "memory_kib": 64, "distances": [10, 17]},
        {"id": 10, "cpus": "", "memory_kib": 0, "distances": [17, 10]},
    ]


def test_module_is_a_version_or_true_or_null(tree: Path) -> None:
    write(tree / "module/nvidia", version="580.126.20", initstate="live")
    write(tree / "module/ib_umad", initstate="live")
    write(tree / "module/nouveau", initstate="going")
    (tree / "module/mlx5_core").mkdir()
    modules = numa.modules()
    assert modules["nvidia"] == "580.126.20"
    assert modules["ib_umad"] is True
    assert modules["mlx5_core"] is True
    assert modules["nouveau"] is None
    assert modules["mlx5_ib"] is None


def test_threads_of_a_core_are_listed_once(tree: Path) -> None:
    for cpu, core in ((0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")):
        write(tree / f"devices/system/cpu/cpu{cpu}/topology", thread_siblings_list=core)
    assert numa.siblings() == ["0,2", "1,3"]


def test_sockets_are_read_once_each_whatever_their_cpus(tree: Path) -> None:
    write(tree / "devices/system/cpu", online="0-5")
    for cpu, socket in ((0, "0,2,4"), (1, "1,3,5")):  # no other file is asked for
        write(tree / f"devices/system/cpu/cpu{cpu}/topology", core_siblings_list=socket)
    assert numa.sockets() == ["0,2,4", "1,3,5"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("flags\t\t: fpu vme hypervisor lahf_lm", True),
        ("flags\t\t: fpu vme lahf_lm nohypervisor", False),
        ("flags\t\t: fpu\n\nflags\t\t: fpu hypervisor", False),
        ("Features\t: fp asimd", None),
    ],
)
def test_hypervisor_is_a_flag_of_the_first_cpu(
    tree: Path, lines: str, expected: bool | None
) -> None:
    (tree.parent / "proc/cpuinfo").write_text(f"processor\t: 0\n{lines}\n")
    assert numa.hypervisor() is expected
    assert numa.cpus()["hypervisor"] is expected
