"""The vendor's packages, simulated: names, versions, dependencies, paths."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.supply import packages

pytestmark = pytest.mark.process

DRIVER = "580.126.20"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every package for one driver version, by name."""
    paths = packages.build(tmp_path_factory.mktemp("debs"), [DRIVER])
    return {path.name.split("_")[0]: path for path in paths}


def field(path: Path, name: str) -> str:
    """A control field."""
    command = ["dpkg-deb", "--field", str(path), name]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def unpack(tmp_path: Path) -> Callable[[Path], Path]:
    """Unpacks a package, with its maintainer scripts in DEBIAN, and returns the folder."""

    def unpacked(path: Path) -> Path:
        subprocess.run(["dpkg-deb", "--raw-extract", str(path), str(tmp_path)], check=True)
        return tmp_path

    return unpacked


def test_lockstep_packages_carry_the_drivers_version(built: dict[str, Path]) -> None:
    assert {field(built[name], "Version") for name in packages.LOCKSTEP} == {f"{DRIVER}-1"}
    assert field(built["nvlsm"], "Version") == "2025.10.11-1"


def test_nvidia_open_brings_module_and_library_of_its_own_version(built: dict[str, Path]) -> None:
    depends = field(built["nvidia-open"], "Depends").split(", ")
    assert f"nvidia-kernel-open-dkms (= {DRIVER}-1)" in depends
    assert f"libnvidia-compute (= {DRIVER}-1)" in depends


def test_driver_only_recommends_its_persistence_daemon(built: dict[str, Path]) -> None:
    assert "nvidia-persistenced" not in field(built["nvidia-open"], "Depends")
    assert field(built["nvidia-open"], "Recommends") == f"nvidia-persistenced (= {DRIVER}-1)"


def test_persistence_daemon_s_unit_is_static_and_leaves_the_mode_off(
    built: dict[str, Path], unpack: Callable[[Path], Path]
) -> None:
    root = unpack(built["nvidia-persistenced"])
    unit = (root / "usr/lib/systemd/system/nvidia-persistenced.service").read_text()
    assert "[Install]" not in unit
    assert "--no-persistence-mode" in unit


def test_fabric_manager_ends_without_ibstat(
    built: dict[str, Path], unpack: Callable[[Path], Path]
) -> None:
    script = unpack(built["nvidia-fabricmanager"]) / "usr/bin/nvidia-fabricmanager-start.sh"
    lines = script.read_text().splitlines()
    [needs] = [number for number, line in enumerate(lines) if "command -v ibstat" in line]
    assert "exit 1" in lines[needs]
    assert lines[needs - 1].strip() == 'echo "Detected NVL5+ system"'


@pytest.mark.parametrize(("wanted", "version"), [("580", "580.*"), ("580.126.20", "580.126.20-*")])
def test_pinning_package_pins_the_lockstep_set(wanted: str, version: str) -> None:
    (content,) = packages.pinning(wanted).files.values()
    lines = content.decode().splitlines()
    named = [f"{name}-580" for name in packages.LOCKSTEP]
    assert lines[0].split()[1:] == [*packages.LOCKSTEP, *named]
    assert lines[1:] == [f"Pin: version {version}", "Pin-Priority: 1000"]


def test_library_is_linked_under_the_name_programs_load(
    built: dict[str, Path], unpack: Callable[[Path], Path]
) -> None:
    root = unpack(built["libnvidia-compute"])
    link = root / packages.LIBRARIES / "libnvidia-ml.so.1"
    assert link.readlink() == Path(f"libnvidia-ml.so.{DRIVER}")
    assert link.read_bytes()[:4] == b"\x7fELF"
    assert "ldconfig" in (root / "DEBIAN/triggers").read_text(encoding="utf-8")


def test_shell_scripts_are_free_of_syntax_errors() -> None:
    scripts = [p for p in packages.VENDOR.rglob("*") if p.is_file() and p.stat().st_mode & 0o100]
    assert len(scripts) >= 5
    for script in scripts:
        subprocess.run(["sh", "-n", str(script)], check=True)


def test_subnet_manager_stays_under_its_own_name(
    built: dict[str, Path], unpack: Callable[[Path], Path]
) -> None:
    program = unpack(built["nvlsm"]) / "opt/nvidia/nvlsm/sbin/nvlsm"
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    assert version.stdout == "NVLSM 2025.10.11 (simulation)\n"
    with subprocess.Popen([program], start_new_session=True) as running:
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                running.wait(0.1)
            name = Path(f"/proc/{running.pid}/comm").read_text(encoding="utf-8")
        finally:
            os.killpg(running.pid, signal.SIGKILL)
    assert name == "nvlsm\n"
