"""The engine probe's calls of CUDA against NVIDIA's own library, without a driver."""

from __future__ import annotations

import ctypes
import inspect
import re
from pathlib import Path

import pytest

from b200kit.node.serving.engine_probe import cuda
from tests.lab.hardware.vendor_library import SYSTEM_OF, cuda_library
from tests.lab.paths import lab_paths
from tests.unit.node.serving.engine_probe.places import step

pytestmark = pytest.mark.vendor
# cuda.h, CUresult.
NAMES = {
    100: "CUDA_ERROR_NO_DEVICE",
    101: "CUDA_ERROR_INVALID_DEVICE",
    304: "CUDA_ERROR_OPERATING_SYSTEM",
    802: "CUDA_ERROR_SYSTEM_NOT_READY",
    803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    804: "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
    999: "CUDA_ERROR_UNKNOWN",
}


@pytest.fixture(params=sorted(SYSTEM_OF))
def library(request: pytest.FixtureRequest) -> Path:
    """NVIDIA's library of a driver branch."""
    return cuda_library(lab_paths().cache, request.param)


def test_library_has_every_call_of_the_probe(library: Path) -> None:
    loaded = ctypes.CDLL(str(library))
    calls = set(re.findall(r"\bcu[A-Z]\w+", inspect.getsource(cuda)))
    assert len(calls) >= 7
    assert [name for name in sorted(calls) if not hasattr(loaded, name)] == []


def test_codes_with_a_remedy_are_those_of_the_library(library: Path) -> None:
    loaded = ctypes.CDLL(str(library))

    def name(code: int) -> str:
        text = ctypes.c_char_p()
        assert loaded.cuGetErrorName(code, ctypes.byref(text)) == 0
        return (text.value or b"").decode()

    assert {code: name(code) for code in cuda._REMEDIES} == NAMES


def test_probe_says_that_there_is_no_gpu(library: Path, tmp_path: Path) -> None:
    place = str(library.parent)
    answer = step(
        "cuda", tmp_path, kind="cuda", CUDA_VISIBLE_DEVICES="GPU-1", LD_LIBRARY_PATH=place
    )
    assert answer["seen"] == "cuInit: CUDA_ERROR_NO_DEVICE (100)"
    assert "DeviceAllow=" in answer["remedy"]
