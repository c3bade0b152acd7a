"""What vLLM's CUDA build does as the serving user in its sandbox, up to its first call of CUDA."""

from __future__ import annotations

import base64

from b200kit.serving.compile_tools import without_flashinfer
from tests.cuda_wheels.conftest import BRANCH
from tests.cuda_wheels.inside import Inside

_INIT = "import torch; print(torch.version.cuda, torch.cuda.is_available()); torch.cuda.init()"
_PLATFORM = "from vllm.platforms import current_platform as p; print(type(p).__name__)"


def test_it_runs_as_the_serving_user_in_the_sandbox(bare: Inside) -> None:
    script = 'id -un; grep -E "^(NoNewPrivs|Seccomp|CapBnd):" /proc/self/status; touch /etc/x || :'
    done = bare.shell(script)
    user, *lines = done.out.splitlines()
    assert user == "vllm"
    seen = {line.split(":")[0]: int(line.split()[1], 16) for line in lines}
    assert seen == {"CapBnd": 0, "NoNewPrivs": 1, "Seccomp": 2}
    assert "Read-only file system" in done.last


def test_without_the_driver_s_library_only_the_empty_shell_of_vllm_is_imported(
    bare: Inside,
) -> None:
    done = bare.python("import vllm; print(vllm.__version__)")
    assert (done.code, done.out) == (0, "0.33.0"), done.err
    done = bare.shell(f"{bare.venv}/bin/vllm serve --help")
    assert (done.code, done.last.partition(":")[0]) == (1, "ImportError")
    assert "libcuda.so.1" in done.last
    done = bare.python(_INIT)
    assert (done.code, done.out) == (1, "13.0 False")
    assert "Found no NVIDIA driver" in done.last


def test_with_the_library_vllm_is_whole_and_says_what_it_takes(with_library: Inside) -> None:
    assert with_library.python(_PLATFORM).out == "NvmlCudaPlatform"
    done = with_library.shell(f"{with_library.venv}/bin/vllm serve --help")
    assert (done.code, "--help=all" in done.out) == (0, True), done.err
    assert with_library.shell(f"{with_library.venv}/bin/vllm --version").out == "0.33.0"


def test_first_call_of_cuda_fails_for_want_of_a_newer_driver(with_library: Inside) -> None:
    assert BRANCH < 580, "torch's CUDA 13 needs driver 580"
    done = with_library.python(_INIT)
    assert (done.code, done.out, done.last.partition(":")[0]) == (1, "13.0 False", "RuntimeError")
    assert "driver on your system is too old (found version 12040)" in done.last


_CHOICE = """
import torch
import vllm.platforms as platforms
from vllm.platforms.cuda import NonNvmlCudaPlatform
from vllm.platforms.interface import DeviceCapability
class B200(NonNvmlCudaPlatform):
    get_device_capability = classmethod(lambda cls, device_id=0: DeviceCapability(10, 0))
platforms._current_platform = B200()
from vllm.v1.attention.selector import AttentionSelectorConfig
from vllm.v1.sample.ops.topk_topp_sampler import flashinfer_sampler_supported
for cache in ("auto", "fp8"):
    asked = AttentionSelectorConfig(
        head_size=128, dtype=torch.bfloat16, kv_cache_dtype=cache, block_size=None)
    found, passed_over = B200.get_valid_backends(DeviceCapability(10, 0), asked, num_heads=16)
    assert "FLASHINFER" in [backend.name for backend in passed_over], found
    print(found[0].backend.name)
print(flashinfer_sampler_supported())
"""


def test_without_flashinfer_a_b200_gets_what_we_say(with_library: Inside) -> None:
    done = with_library.python(_CHOICE)
    attention = without_flashinfer()["takes"]["attention"]
    assert done.out.split()[-3:] == [attention, attention, "False"], done.err


_DEEP_GEMM = "site-packages/vllm/third_party/deep_gemm"
_KERNEL = """
#include <deep_gemm/common/math.cuh>
#include <cuda_bf16.h>
#include <cub/cub.cuh>
__global__ void one(__nv_bfloat16 *x) { x[threadIdx.x] = __float2bfloat16(1.f); }
"""


def test_compiler_among_the_wheels_fits_their_headers(bare: Inside) -> None:
    program = base64.b64encode(_KERNEL.encode()).decode()
    nvcc = f"$CUDA_HOME/bin/nvcc -std=c++20 -I {bare.venv}/lib/python3*/{_DEEP_GEMM}/include"
    done = bare.shell(
        f"cd $(mktemp -d) && echo {program} | base64 -d > one.cu && "
        f"{nvcc} -cubin -arch=sm_100a -o one.cubin one.cu && head -c 4 one.cubin | tail -c 3"
    )
    assert (done.code, done.out) == (0, "ELF"), done.err


def test_server_reads_our_whole_configuration_and_ends_for_want_of_gpus(
    with_library: Inside,
) -> None:
    done = with_library.shell(
        f"{with_library.venv}/bin/vllm serve --config /etc/vllm/replica-0.yaml"
    )
    assert done.code == 1
    assert "Resolved architecture: LlamaForCausalLM" in done.out
    assert "World size (2) is larger than the number of available GPUs (0)" in done.err
