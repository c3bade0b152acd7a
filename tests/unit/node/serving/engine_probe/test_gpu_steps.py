"""The steps that need GPUs, against a driver's library and packages of an engine made for it.

They show how answers and faults are read. That CUDA, NCCL, Triton and FlashInfer themselves answer
so was not seen: no machine here has a GPU. That their real packages have what the steps ask for is
seen in tests/cuda_wheels.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.unit.node.serving.engine_probe.places import ROOT, step

pytestmark = pytest.mark.process

_CALLS = {
    "cuDriverGetVersion": "int *version",
    "cuInit": "unsigned flags",
    "cuDeviceGetCount": "int *count",
    "cuDeviceGet": "int *device, int number",
    "cuDeviceGetUuid": "unsigned char *uuid, int device",
    "cuDevicePrimaryCtxRetain": "void **context, int device",
    "cuDevicePrimaryCtxRelease_v2": "int device",
}
_ACTS = {
    "cuDriverGetVersion": '*version = getenv("RUNS") ? atoi(getenv("RUNS")) : 13000;',
    "cuDeviceGetCount": "*count = 2;",
    "cuDeviceGet": "*device = number;",
    "cuDeviceGetUuid": "memset(uuid, device + 1, 16);",
}
_HEAD = """
#include <stdlib.h>
#include <string.h>
static int code(const char *call) {
    const char *failing = getenv("FAILING");
    return failing && strcmp(failing, call) == 0 ? atoi(getenv("CODE")) : 0;
}
int cuGetErrorName(int code, const char **text) { *text = "CUDA_ERROR_OF_A_TEST"; return 0; }
"""
GPUS = [f"GPU-{n * 4}-{n * 2}-{n * 2}-{n * 2}-{n * 6}" for n in ("01", "02")]
_TORCH = """
import os
bfloat16 = None
rank = 0
def start(backend, init_method, rank, world_size, timeout):
    globals()["rank"] = rank
    assert init_method.startswith("tcp://127.0.0.1:")
    if os.environ.get("FAILING") == "meeting" and rank == 1:
        raise RuntimeError("no peer\\nat all")
    if os.environ.get("FAILING") == "nvls" and rank == 1:
        raise RuntimeError("NCCL error in: /torch/NCCLUtils.cpp:93, unhandled" + " ." * 300
            + "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : error 401")
    if os.environ.get("FAILING") == "abort" and rank == 1:
        os.abort()
class Tensor(float):
    min = max = lambda self: self
def full(shape, value, device):
    return Tensor(3.0 if os.environ.get("FAILING") != "sum" else value)
from torch import cuda, distributed
"""
_DISTRIBUTED = """
from torch import start as init_process_group
def all_reduce(tensor): pass
def destroy_process_group(): pass
"""
_TORCH_FILES = {
    "torch/__init__.py": _TORCH,
    "torch/distributed.py": _DISTRIBUTED,
    "torch/cuda.py": "def set_device(number): pass\n",
}
_STUB = """
import os
class CudaUtils:
    def __init__(self):
        open(os.path.join(os.environ["TRITON_CACHE_DIR"], "stub"), "w").close()
        if os.environ.get("FAILING"): raise RuntimeError(os.environ["FAILING"])
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A libcuda.so.1 with two GPUs."""
    folder = tmp_path_factory.mktemp("driver")
    body = "".join(
        f'int {name}({given}) {{ {_ACTS.get(name, "")} return code("{name}"); }}\n'
        for name, given in _CALLS.items()
    )
    (folder / "cuda.c").write_text(_HEAD + body)
    made = folder / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", made, folder / "cuda.c"], check=True)
    return folder


def cuda(driver: Path, home: Path, gpus: list[str], **environment: Any) -> dict[str, Any]:
    """The answer of the step for a replica of some GPUs."""
    given: dict[str, Any] = {"CUDA_VISIBLE_DEVICES": ",".join(gpus), "LD_LIBRARY_PATH": str(driver)}
    return step("cuda", home, kind="cuda", **given, **environment)


def package(folder: Path, name: str, files: Mapping[str, str] = MappingProxyType({})) -> str:
    """A package that is installed in a folder; what PYTHONPATH must be to find it."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return f"{ROOT / 'deploy'}:{folder}"


def test_gpus_of_the_replica_are_seen_in_order(driver: Path, tmp_path: Path) -> None:
    assert cuda(driver, tmp_path, GPUS)["result"] == "passed"


@pytest.mark.parametrize("given", [GPUS[:1], GPUS[::-1], [*GPUS, "GPU-03"]])
def test_other_gpus_than_the_replica_s_are_a_fault(
    driver: Path, tmp_path: Path, given: list[str]
) -> None:
    answer = cuda(driver, tmp_path, given)
    assert answer["result"] == "failed"
    assert "CUDA_VISIBLE_DEVICES" in answer["remedy"]


@pytest.mark.parametrize(
    ("call", "code", "remedy"),
    [
        ("cuInit", 802, "fabric manager"),
        ("cuInit", 999, "char-nvidia-uvm"),
        ("cuInit", 100, "DeviceAllow="),
        ("cuDevicePrimaryCtxRetain", 304, "DeviceAllow="),
        ("cuDeviceGetUuid", 1, "journalctl -k"),
    ],
)
def test_call_that_fails_is_named_with_who_may_be_at_fault(
    driver: Path, tmp_path: Path, call: str, code: int, remedy: str
) -> None:
    answer = cuda(driver, tmp_path, GPUS, FAILING=call, CODE=str(code))
    assert answer["result"] == "failed"
    assert answer["seen"] == f"{call}: CUDA_ERROR_OF_A_TEST ({code})"
    assert remedy in answer["remedy"]


@pytest.mark.parametrize(
    ("built", "runs", "says"),
    [
        ("'13.0'", "13010", None),
        ("'12.8'", "13000", None),
        ("'13.0'", "12080", "driver 580"),
        ("'14.1'", "13000", "a driver"),
        ("None", "13000", "CUDA build of torch"),
    ],
)
def test_driver_that_is_too_old_for_torch_is_named(
    driver: Path, tmp_path: Path, built: str, runs: str, says: str | None
) -> None:
    # Nothing else of torch is loaded, which takes seconds.
    whole = "raise ImportError('all of it')\n"
    files = {"torch/__init__.py": whole, "torch/version.py": f"cuda = {built}\n"}
    answer = cuda(driver, tmp_path, GPUS, RUNS=runs, PYTHONPATH=package(tmp_path, "torch", files))
    assert answer["result"] == ("failed" if says else "passed"), answer
    assert (says or "") in answer["remedy"]


@pytest.mark.parametrize(
    ("failing", "seen"),
    [
        ("", "nccl reduces over 2 ranks"),
        ("meeting", "rank 1: RuntimeError: no peer at all"),
        ("abort", "rank 1 ended with -6"),
        ("sum", "ValueError: the sum is"),
        ("nvls", "NVLink SHARP (NVLS)"),
    ],
)
def test_ranks_reduce_together_or_say_why_not(tmp_path: Path, failing: str, seen: str) -> None:
    path = package(tmp_path, "torch", _TORCH_FILES)
    answer = step("all-reduce", tmp_path, kind="cuda", PYTHONPATH=path, FAILING=failing)
    assert answer["result"] == ("failed" if failing else "passed"), answer
    assert seen in answer["seen"]
    if failing:
        assert ("nvidia-fabricmanager" in answer["remedy"]) is (failing == "nvls")
        assert ("IPAddressAllow=" in answer["remedy"]) is (failing != "nvls")


@pytest.mark.parametrize("failing", ["", "Python.h: No such file"])
def test_triton_compiles_its_stub_from_nothing_kept(tmp_path: Path, failing: str) -> None:
    path = package(tmp_path, "triton", {"triton/backends/nvidia/driver.py": _STUB})
    answer = step("triton", tmp_path, kind="cuda", PYTHONPATH=path, FAILING=failing)
    assert answer["result"] == ("failed" if failing else "passed")
    assert failing in answer["seen"]
    assert not list(tmp_path.glob(".probe-*"))


def test_flashinfer_without_its_kernels_and_without_nvcc_is_not_used(tmp_path: Path) -> None:
    path = package(tmp_path, "flashinfer_python")
    assert step("flashinfer", tmp_path, kind="cuda", PYTHONPATH=path)["result"] == "not applicable"


@pytest.mark.parametrize("prebuilt", [True, False])
def test_flashinfer_that_does_not_load_is_a_fault(tmp_path: Path, prebuilt: bool) -> None:
    path = package(
        tmp_path, "flashinfer_python", {"flashinfer/norm.py": "raise ImportError('no norm')"}
    )
    if prebuilt:
        package(tmp_path, "flashinfer_jit_cache")
    (tmp_path / "torch.py").write_text("")
    answer = step("flashinfer", tmp_path, kind="cuda", PYTHONPATH=path, CUDA_HOME="/cuda")
    assert answer["result"] == "failed"
    assert ("jit-cache" if prebuilt else "CUDA_HOME") in answer["remedy"]
