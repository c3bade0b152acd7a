"""What an engine from wheels needs to compile kernels at run time, and what it does without.

An image brings its own. Triton compiles the stub of its driver with a C compiler and Python.h at
its first kernel (triton/runtime/build.py), torch.compile and FlashInfer want C++ and ninja, which
is a wheel. On a B200 vLLM takes FlashInfer's attention and sampler wherever the package can be
imported, even if nothing can compile them, and ends (vllm-project/vllm#49497; `recipes.yaml` of the
locks). So a lock has FlashInfer with its kernels or not at all, or the inventory has an nvcc.
DeepGEMM, which vLLM brings, compiles by nvcc as well, of CUDA_HOME or PATH (read in its library);
that of the wheels does for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from b200kit.catalog import shipped
from b200kit.inventory import engine_rules
from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.spec import NodeSpec
from b200kit.node.state.drift import Package

_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_FLASHINFER = re.compile(rb"(?im)^flashinfer[-_.]python\s*==")
_PREBUILT = re.compile(rb"(?im)^flashinfer[-_.]jit[-_.]cache\s*==")
_NVCC = ("CUDA_HOME", "CUDA_PATH")
_RELEASES = [
    re.compile(rb"(?im)^nvidia[-_.]cuda[-_.]%b\s*==([0-9]+)\.([0-9]+)" % part)
    for part in (b"nvcc", b"runtime")
]
# NVFP4 is kept by FlashInfer's attention alone (sizing/kv_cache_formats.py).
_ASKS = re.compile(r"=.*flashinfer|^kv-cache-dtype=nvfp4(_4over6)?$", re.IGNORECASE)
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
    read = shipped.read(_WITHOUT)
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


def unanswerable(spec: NodeSpec, lock: bytes) -> Iterator[Problem]:
    """Flags that ask for FlashInfer by name where the lock has none: vLLM ends at its start."""
    own = [("engine.flags.", spec.engine.flags)]
    own += [(f"replica_flags.{number}.", flags) for number, flags in spec.replica_flags]
    own += [("", (("kv_cache_dtype", spec.kv_cache_dtype),))] if spec.kv_cache_dtype else []
    for key, flags in own if lacks_flashinfer(spec, lock) else ():
        for name, value in flags:
            if _ASKS.search(f"{name.replace('_', '-')}={value}"):
                message = (
                    f"{value} needs FlashInfer, which {spec.engine.requirements} does not have"
                )
                yield Problem(f"{key}{name}", message)


def environment(spec: NodeSpec, directory: str, lock: bytes) -> dict[str, str]:
    """Where the engine's own programs and nvcc are; *directory* is the virtual environment."""
    values = {"PATH": f"{directory}/bin:{_SYSTEM}"}
    if spec.cuda_toolkit:
        values["CUDA_HOME"] = f"/usr/local/cuda-{spec.cuda_toolkit.replace('-', '.')}"
    elif _on_gpus(spec) and (below := _toolkit_of(lock)):
        values["CUDA_HOME"] = f"{directory}/{below}"
    if lacks_flashinfer(spec, lock):
        values |= without_flashinfer()["variables"]
    return values


def _toolkit_of(lock: bytes) -> str:
    """Where the wheels put nvcc; empty without one of the release of the headers beside it."""
    nvcc, runtime = (pattern.search(lock) for pattern in _RELEASES)
    pythons = engine_rules.python_of(lock.decode("utf-8", "replace"))
    if not nvcc or not runtime or nvcc.groups() != runtime.groups() or len(pythons) != 1:
        return ""
    [(major, minor)] = pythons
    return f"lib/python{major}.{minor}/site-packages/nvidia/cu{nvcc[1].decode()}"


def _on_gpus(spec: NodeSpec) -> bool:
    return spec.engine.name == "vllm" and spec.engine.kind == "cuda"
