"""What an engine from wheels needs to compile kernels at run time, and what it does without.

An image brings its own. Triton compiles the stub of its driver with a C compiler and Python.h at
its first kernel (triton/runtime/build.py), torch.compile and FlashInfer want C++ and ninja, which
is a wheel. On a B200 vLLM takes FlashInfer's attention and sampler wherever the package can be
imported, even if nothing can compile them, and ends (vllm-project/vllm#49497; `recipes.yaml` of the
locks). So a lock has FlashInfer with its kernels or not at all, or the inventory has an nvcc.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import yaml

from b200kit.inventory.spec import NodeSpec
from b200kit.node.state.drift import Package

_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_FLASHINFER = re.compile(rb"(?im)^flashinfer[-_.]python\s*==")
_PREBUILT = re.compile(rb"(?im)^flashinfer[-_.]jit[-_.]cache\s*==")
_NVCC = ("CUDA_HOME", "CUDA_PATH")
_WITHOUT = Path(__file__).with_name("vllm-without-flashinfer.yaml")


def packages(spec: NodeSpec) -> tuple[Package, ...]:
    """The distribution's compiler and Python's headers."""
    none = spec.engine.image or spec.engine.kind == "stand-in"
    return () if none else (Package("g++"), Package("python3-dev"))


def lacks_flashinfer(spec: NodeSpec, lock: bytes) -> bool:
    """Whether vLLM runs on GPUs without FlashInfer."""
    return _on_gpus(spec) and not _FLASHINFER.search(lock)


@cache
def without_flashinfer() -> dict[str, dict[str, str]]:
    """The `variables` that vLLM then needs, and what it `takes` instead."""
    read = yaml.safe_load(_WITHOUT.read_text(encoding="utf-8"))
    return {part: {name: said["value"] for name, said in read[part].items()} for part in read}


def note() -> str:
    """What vLLM takes instead, for the report."""
    takes = without_flashinfer()["takes"].items()
    return "vLLM runs without FlashInfer: " + ", ".join(f"{part} {what}" for part, what in takes)


def uncompilable(spec: NodeSpec, lock: bytes) -> str:
    """Why vLLM would end at its first kernel with this lock; empty where it would not."""
    given = spec.cuda_toolkit or any(name in _NVCC for name, _ in spec.engine.environment)
    if not _on_gpus(spec) or not _FLASHINFER.search(lock) or _PREBUILT.search(lock) or given:
        return ""
    return (
        "has flashinfer-python without its kernels, and no nvcc compiles them: make it with "
        "`b200 lock`, which leaves it out, or set cuda_toolkit"
    )


def environment(spec: NodeSpec, directory: str, lock: bytes) -> dict[str, str]:
    """Where the engine's own programs and nvcc are; *directory* is the virtual environment."""
    values = {"PATH": f"{directory}/bin:{_SYSTEM}"}
    if spec.cuda_toolkit:
        values["CUDA_HOME"] = f"/usr/local/cuda-{spec.cuda_toolkit.replace('-', '.')}"
    if lacks_flashinfer(spec, lock):
        values |= without_flashinfer()["variables"]
    return values


def _on_gpus(spec: NodeSpec) -> bool:
    return spec.engine.name == "vllm" and spec.engine.kind == "cuda"
