"""The engine probe over the engine's real packages, as far as it comes without a GPU."""

from __future__ import annotations

import re

from b200kit.node.serving.engine_probe.run import STEPS
from tests.cuda_wheels.inside import Inside
from tests.messages import assert_message

_NEED_CUDA = ("cuda", "triton", "all-reduce", "flashinfer")
# Where the lab may not raise limits; docs/lab.md.
_LAB = "locked-memory"


def test_sandbox_and_compilers_are_what_this_engine_needs(bare: Inside) -> None:
    names = [step.name for step in STEPS if step.name not in (*_NEED_CUDA, _LAB)]
    answers = bare.steps(*names)
    assert {name: answer["result"] for name, answer in answers.items()} == dict.fromkeys(
        names, "passed"
    ), answers
    seen = answers["compiler"]["seen"]
    assert f"{bare.venv}/bin/ninja" in seen, "the lock's own"
    assert re.search(rf"{bare.venv}/lib/python3\.\d+/site-packages/nvidia/cu13/bin/nvcc$", seen)


def test_missing_library_is_named_by_the_step_of_cuda(bare: Inside) -> None:
    answer = bare.steps("cuda")["cuda"]
    assert answer["result"] == "failed"
    assert_message(f"{answer['seen']}; {answer['remedy']}")


def test_driver_that_is_too_old_is_named_by_the_step_of_cuda(with_library: Inside) -> None:
    answer = with_library.steps("cuda")["cuda"]
    assert answer["result"] == "failed"
    assert_message(f"{answer['seen']}; {answer['remedy']}")


def test_triton_compiles_its_stub_against_the_library_alone(with_library: Inside) -> None:
    assert with_library.steps("triton")["triton"] == {
        "result": "passed",
        "seen": "Triton 3.8.0 compiles its driver stub",
        "remedy": "",
    }


def test_ranks_end_at_the_first_call_of_cuda(with_library: Inside) -> None:
    answer = with_library.steps("all-reduce")["all-reduce"]
    assert answer["result"] == "failed"
    assert answer["seen"].startswith("nccl over 2 ranks at 127.0.0.1: rank ")
    assert "driver on your system is too old" in answer["seen"]


def test_engine_without_flashinfer_needs_none_of_its_kernels(with_library: Inside) -> None:
    answer = with_library.steps("flashinfer")["flashinfer"]
    assert (answer["result"], answer["seen"]) == ("not applicable", "the engine has no FlashInfer")


_CALLS = """
import inspect
from datetime import timedelta
import torch, torch.distributed as group
inspect.signature(group.init_process_group).bind(
    "nccl", init_method="tcp://h:1", rank=0, world_size=2, timeout=timedelta(seconds=1))
inspect.signature(group.all_reduce).bind(None)
inspect.signature(group.destroy_process_group).bind()
inspect.signature(torch.cuda.set_device).bind(0)
print(group.is_nccl_available(), torch.cuda.nccl.version())
"""


def test_calls_of_the_later_steps_are_there_in_these_versions(with_library: Inside) -> None:
    done = with_library.python(_CALLS)
    assert done.out == "True (2, 30, 7)", done.err
