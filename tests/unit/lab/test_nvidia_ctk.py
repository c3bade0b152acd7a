"""The lab's nvidia-ctk changes containerd's configuration as the real one, v1.20.0, does.

Expected are the rules of pkg/config/engine/containerd: getBaseDropInConfigTree, AddRuntime,
EnableCDI and ensureImports.
"""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.subtests import in_subtests

PROGRAM = Path(__file__).parents[2] / "lab/vendor/nvidia-container-toolkit-base/usr/bin/nvidia-ctk"
OWN = """\
version = 2
imports = ["/opt/*.toml"]
[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    sandbox_image = "own/pause:3"
    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/usr/lib/cni"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = true
"""
BINARY = {"BinaryName": "/usr/bin/nvidia-container-runtime"}


def configure(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`nvidia-ctk runtime configure` on a directory of containerd's."""
    argv = ["sh", str(PROGRAM), "--quiet", "runtime", "configure", *words]
    environment = {**os.environ, "CONTAINERD": str(folder)}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The owner's file and the drop-in."""
    return tuple(  # type: ignore[return-value]
        tomllib.loads((folder / name).read_text())
        for name in ("config.toml", "conf.d/99-nvidia.toml")
    )


@pytest.mark.parametrize("times", [1, 2])
def test_owners_section_goes_into_the_drop_in_with_cdi_on(tmp_path: Path, times: int) -> None:
    (tmp_path / "config.toml").write_text(OWN)
    for _ in range(times):
        done = configure(tmp_path, "--runtime=containerd", "--cdi.enabled")
        assert done.returncode == 0, done.stderr
    top, drop_in = read(tmp_path)
    own = tomllib.loads(OWN)
    assert top == {**own, "imports": ["/opt/*.toml", f"{tmp_path}/conf.d/*.toml"]}
    section = own["plugins"]["io.containerd.grpc.v1.cri"]
    runc = section["containerd"]["runtimes"]["runc"]
    section["containerd"]["runtimes"]["nvidia"] = {**runc, "options": {**runc["options"], **BINARY}}
    section["enable_cdi"] = True
    assert drop_in == {"version": 2, "plugins": {"io.containerd.grpc.v1.cri": section}}


@in_subtests(
    ("version", "name"),
    [(None, "io.containerd.grpc.v1.cri"), (3, "io.containerd.cri.v1.runtime")],
)
def test_section_is_that_of_the_files_version(
    tmp_path: Path, version: int | None, name: str
) -> None:
    file = tmp_path / "config.toml"
    file.unlink(missing_ok=True)
    if version:
        file.write_text(f"version = {version}\n")
    assert configure(tmp_path, "--runtime=containerd", "--cdi.enabled").returncode == 0
    top, drop_in = read(tmp_path)
    assert top == {"version": version or 2, "imports": [f"{tmp_path}/conf.d/*.toml"]}
    assert drop_in["plugins"][name]["enable_cdi"] is True


def test_what_it_does_not_play_is_refused(tmp_path: Path) -> None:
    assert configure(tmp_path, "--runtime=docker", "--cdi.enabled").returncode == 2
    (tmp_path / "config.toml").write_text("version = 2\n[")
    assert configure(tmp_path, "--runtime=containerd", "--cdi.enabled").returncode == 1
