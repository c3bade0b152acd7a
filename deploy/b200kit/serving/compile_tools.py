"""What an engine from wheels needs to compile kernels at run time, and what it does without.

An image brings its own. Triton compiles the stub of its driver with a C compiler and Python.h at
its first kernel (triton/runtime/build.py), torch.compile and FlashInfer want C++ and ninja, which
is a wheel. vLLM takes FlashInfer's sampler although nothing can compile it, and ends at its first
sample (vllm-project/vllm#49497): it is off unless there is nvcc, or its kernels are in the lock.
"""

from __future__ import annotations

import re

from b200kit.inventory.spec import NodeSpec
from b200kit.node.state.drift import Package

_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PREBUILT = re.compile(rb"(?im)^flashinfer[-_.]jit[-_.]cache\s*==")
NO_SAMPLER = (
    "vLLM samples without FlashInfer: the lock has no flashinfer-jit-cache, and without "
    "cuda_toolkit nothing compiles its kernels"
)


def packages(spec: NodeSpec) -> tuple[Package, ...]:
    """The distribution's compiler and Python's headers."""
    none = spec.engine.image or spec.engine.kind == "stand-in"
    return () if none else (Package("g++"), Package("python3-dev"))


def lacks_sampler(spec: NodeSpec, lock: bytes) -> bool:
    """Whether vLLM would take a sampler that cannot be compiled."""
    on_gpus = spec.engine.name == "vllm" and spec.engine.kind == "cuda"
    return on_gpus and not spec.cuda_toolkit and not _PREBUILT.search(lock)


def environment(spec: NodeSpec, directory: str, lock: bytes) -> dict[str, str]:
    """Where the engine's own programs and nvcc are; *directory* is the virtual environment."""
    values = {"PATH": f"{directory}/bin:{_SYSTEM}"}
    if spec.cuda_toolkit:
        values["CUDA_HOME"] = f"/usr/local/cuda-{spec.cuda_toolkit.replace('-', '.')}"
    if lacks_sampler(spec, lock):
        values["VLLM_USE_FLASHINFER_SAMPLER"] = "0"
    return values
