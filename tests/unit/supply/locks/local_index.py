"""A package index of small wheels in a folder, which the real uv resolves without any network."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.supply.wheelfile import write_wheel

ENGINE = {
    "vllm 0.33.0": ("torch==2.14.0", "flashinfer-python==0.7.2", "humming", "certifi>=2026.10.19"),
    "vllm 0.34.0": ("flashinfer-python==0.7.2", "torch==2.15.0", "humming"),
    "torch 2.14.0": ("cuda-toolkit==13.0.3", "cuda-bindings>=13"),
    "torch 2.15.0": ("cuda-toolkit==13.0.3", "cuda-bindings>=13"),
    "humming 1.0": ("nvidia-cuda-nvcc",),
    "flashinfer-python 0.7.2": ("cuda-python>=12",),
    "cuda-python 12.6.2": (),
    "cuda-python 13.4.4": ("cuda-bindings~=13.4.4",),
    "cuda-bindings 13.4.4": (),
    "cuda-bindings 13.5.0": (),
    "certifi 2026.10.18": (),
    "nvidia-cuda-nvcc 13.0.88": (),
    "nvidia-cuda-nvcc 13.5.37": (),
    "nvidia-cuda-cccl 13.0.85": (),
    "cuda-toolkit 13.0.3": (
        'nvidia-cuda-nvcc==13.0.*; extra == "nvcc"',
        'nvidia-cuda-cccl==13.0.*; extra == "cccl"',
    ),
}
"""Packages with what they ask for: as in vLLM 0.33.0's set, by the pitfalls of that one."""
KERNELS: dict[str, tuple[str, ...]] = {
    "flashinfer-cubin 0.7.2": (),
    "flashinfer-jit-cache 0.7.2": (),
}
PYTHON = "Requires-Python: >=3.11"


def publish(folder: Path, packages: dict[str, tuple[str, ...]]) -> None:
    """Write the wheel of each package."""
    folder.mkdir(exist_ok=True)
    for package, requires in packages.items():
        name, version = package.split()
        lines = ["made for a test", PYTHON, *(f"Requires-Dist: {line}" for line in requires)]
        extras = [f"Provides-Extra: {extra}" for extra in ("nvcc", "cccl")]
        write_wheel(folder, name, version, "\n".join(lines + extras))


def use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let uv see these wheels alone."""
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_CACHE_DIR", str(folder.with_name("uv-cache")))
