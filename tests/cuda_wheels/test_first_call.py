"""What vLLM's CUDA build does as the serving user in its sandbox, up to its first call of CUDA."""

from __future__ import annotations

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


def test_server_reads_our_whole_configuration_and_ends_for_want_of_gpus(
    with_library: Inside,
) -> None:
    done = with_library.shell(
        f"{with_library.venv}/bin/vllm serve --config /etc/vllm/replica-0.yaml"
    )
    assert done.code == 1
    assert "Resolved architecture: LlamaForCausalLM" in done.out
    assert "World size (2) is larger than the number of available GPUs (0)" in done.err
