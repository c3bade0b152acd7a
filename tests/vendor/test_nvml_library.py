"""Our NVML worker, our data and the stand-in against NVIDIA's own libraries."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import pytest

from b200kit.node.facts.nvml.client import KEYS, Worker
from tests.lab.hardware import shim_build
from tests.lab.hardware.vendor_library import SYSTEM_OF, nvml_library
from tests.lab.paths import lab_paths
from tests.unit.lab.nvml.abi import vendor

pytestmark = pytest.mark.vendor


@pytest.fixture(params=sorted(SYSTEM_OF))
def branch(request: pytest.FixtureRequest) -> int:
    """A driver branch whose library Debian has."""
    number: int = request.param
    return number


@pytest.fixture
def library(branch: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """NVIDIA's library of that branch, where this process's children find it first."""
    found = nvml_library(lab_paths().cache, branch)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(found.parent))
    return found


def test_library_has_what_the_headers_say_of_its_branch(branch: int, library: Path) -> None:
    loaded = ctypes.CDLL(str(library))
    missing = {name for name in vendor()["functions"] if not hasattr(loaded, name)}
    newer = {name for name, first in vendor()["functions"].items() if first > branch}
    # Debian's 535 is an update release, which has it before the header of 550.
    early = {535: {"nvmlDeviceGetSramEccErrorStatus"}}
    assert missing == newer - early.get(branch, set())


@pytest.mark.usefixtures("library")
def test_worker_says_that_no_driver_is_loaded() -> None:
    why = {"unmeasured": "Driver Not Loaded (9)"}
    assert Worker(20.0).result() == {key: why for key in KEYS}  # noqa: C420 - see RUF024


ASK = """
import json
import pynvml as n
calls = [n.nvmlInit, n.nvmlSystemGetNVMLVersion, lambda: n.nvmlDeviceGetRepairStatus(None)]
def answer(call):
    try:
        return call()
    except n.NVMLError as error:
        return [error.value, str(error)]
print(json.dumps([answer(call) for call in calls]))
"""


@pytest.mark.usefixtures("library")
def test_call_that_is_missing_is_answered_as_our_data_expects(branch: int) -> None:
    argv = [sys.executable, "-c", ASK]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    init, version, repair = json.loads(done.stdout)
    assert init == [9, "Driver Not Loaded"]
    assert version.startswith(f"12.{branch}.")
    assert repair == [13, "Function Not Found"]


def test_stand_in_words_its_errors_as_the_library_does(library: Path, tmp_path: Path) -> None:
    stand_in = shim_build.compile_shim(tmp_path / shim_build.SONAME, "580.126.20")
    words = []
    for path in (library, stand_in):
        text = ctypes.CDLL(str(path)).nvmlErrorString
        text.restype = ctypes.c_char_p
        words.append({code: text(code).decode() for code in range(31)})
    real, ours = words
    known = {code: text for code, text in ours.items() if text != "Unknown Error"}
    assert known == {code: real[code] for code in known}
