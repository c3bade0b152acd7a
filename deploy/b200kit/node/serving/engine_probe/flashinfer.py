"""Step: a kernel of FlashInfer loads and runs, where the engine has FlashInfer."""

from __future__ import annotations

from importlib import import_module, metadata

from b200kit.node.serving.engine_probe.asked import Fault, NotApplicable, ProbeRequest
from b200kit.node.serving.engine_probe.compilers import has


def kernels(asked: ProbeRequest) -> str:
    """The normalisation of one small tensor: prebuilt, or compiled by nvcc and ninja."""
    if not asked.on_gpus:
        raise NotApplicable("FlashInfer is for GPUs")
    if not has("flashinfer-python"):
        raise NotApplicable("the engine has no FlashInfer")
    prebuilt = has("flashinfer-jit-cache")
    if not prebuilt and not asked.environment.get("CUDA_HOME"):
        raise NotApplicable("no kernel is prebuilt and there is no nvcc: its sampler is off")
    try:
        torch, norm = import_module("torch"), import_module("flashinfer.norm")
        kind = {"device": "cuda", "dtype": torch.bfloat16}
        found = norm.rmsnorm(torch.ones(1, 128, **kind), torch.ones(128, **kind))
        torch.cuda.synchronize()
        float(found.sum())
    except Exception as error:
        versions = "flashinfer-python and flashinfer-jit-cache must be of one version"
        tools = "PATH must have ninja, and CUDA_HOME nvcc"
        seen = f"FlashInfer: {type(error).__name__}: {error}"
        raise Fault(seen, versions if prebuilt else asked.unit(tools)) from None
    return f"a kernel of FlashInfer {metadata.version('flashinfer-python')} runs"
