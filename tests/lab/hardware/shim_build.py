"""Compiles the NVML stand-in (tests/lab/shim) for one driver version; needs gcc."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "shim"
SONAME = "libnvidia-ml.so.1"
FLAGS = (
    "-std=c11 -O2 -fPIC -shared -fvisibility=hidden -Wall -Wextra -Werror "
    f"-Wl,-soname,{SONAME} -Wl,--build-id=none"
).split()

#: CUDA version (major * 1000 + minor * 10) each driver branch brings, from the drivers' release
#: notes.
CUDA_OF_BRANCH = {570: 12080, 575: 12090, 580: 13000, 590: 13010}


def compile_shim(output: Path, driver_version: str) -> Path:
    """Build the library as `output` for a driver ("580.126.20"); raises with gcc's complaint."""
    branch = int(driver_version.split(".")[0])
    sources = sorted(path.name for path in SOURCES.glob("*.c"))
    command = [
        "gcc",
        *FLAGS,
        f'-DLIBRARY_VERSION="{driver_version}"',
        f"-DCUDA_VERSION={CUDA_OF_BRANCH.get(branch, 13000)}",
        f"-DBRANCH={branch}",
        "-o",
        str(output.resolve()),
        *sources,
    ]
    done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the NVML stand-in does not compile: {done.stderr.strip()}")
    return output
