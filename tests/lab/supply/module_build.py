"""A stand-in for nvidia.ko: an ELF file with the module's information, which modinfo can read.

It has no code, so no kernel could load it. Needs gcc.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

INFORMATION = {
    "license": "Dual MIT/GPL",
    "description": "b200kit lab, simulation: holds nothing that a kernel could run",
}


def source(version: str) -> str:
    """C source of the module's `.modinfo` section."""
    pairs = {"version": version, **INFORMATION}
    lines = (
        f'static const char {key}[] __attribute__((section(".modinfo"), used)) = "{key}={value}";\n'
        for key, value in pairs.items()
    )
    return "".join(lines)


def compile_module(version: str) -> bytes:
    """The file's bytes for a driver version ("580.126.20"), the same every time."""
    with tempfile.TemporaryDirectory(prefix="b200-module-") as scratch:
        (Path(scratch) / "nvidia.c").write_text(source(version), encoding="utf-8")
        command = ["gcc", "-c", "-O0", "nvidia.c", "-o", "nvidia.ko"]
        subprocess.run(command, cwd=scratch, check=True, capture_output=True)
        return (Path(scratch) / "nvidia.ko").read_bytes()
