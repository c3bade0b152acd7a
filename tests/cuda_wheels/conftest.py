"""A node with vLLM's CUDA build, installed by the ordinary stage: once for all of these tests."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import tests.lab as lab
from tests.cuda_wheels.inside import NODE, Inside
from tests.e2e.driving import Outcome, deploy, on
from tests.lab.hardware.vendor_library import cuda_library
from tests.lab.lab import say
from tests.lab.live import KEPT
from tests.lab.paths import lab_paths
from tests.lab.supply import cuda_wheels

BRANCH = 550
"""Of Debian's libcuda1, the newest to be had: CUDA 12.4, and torch is built for 13."""
_LIBRARY = "usr/lib/x86_64-linux-gnu/libcuda.so.1"
_REPLICA = {"replicas": 1, "tensor_parallel": 2, "max_num_seqs": 2}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gigabytes and minutes: no other target takes them."""
    for item in items:
        if "tests/cuda_wheels/" in str(item.path):
            item.add_marker(pytest.mark.lab)
            item.add_marker(pytest.mark.cuda_wheels)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """b200.py on a bare node, asked for the CUDA build; no lab before, no lab after."""
    lab.down()
    with pytest.MonkeyPatch.context() as patch:
        for variable in KEPT:
            patch.setenv(variable, str(tmp_path_factory.mktemp(variable.lower())))
        lab.up(1, ["one-numa-node"], engine="stand-in")
        engine = {
            "kind": "cuda",
            "version": "0.33.0",
            "requirements": str(cuda_wheels.LOCK),
            "wheelhouse": cuda_wheels.ensure(lab_paths(), say),
        }
        asked = {"engine": json.dumps(engine), **_REPLICA}
        yield deploy("b200.py", *(f for k, v in asked.items() for f in ("--data", f"{k}={v}")))
    lab.down()


@pytest.fixture(scope="session")
def bare(run: Outcome) -> Inside:
    """The sandbox of the replica on a node without a libcuda.so.1: the lab's driver has none."""
    assert on(NODE, f"test -e /{_LIBRARY} || echo none") == "none", run.said[-3000:]
    return Inside()


@pytest.fixture
def with_library(bare: Inside) -> Iterator[Inside]:
    """The same with NVIDIA's own library, and still no GPU."""
    real = cuda_library(lab_paths().cache, BRANCH)
    there = lab_paths().host(NODE) / "root" / _LIBRARY
    there.write_bytes(real.read_bytes())
    on(NODE, "ldconfig")
    yield bare
    there.unlink()
    on(NODE, "ldconfig")
