"""What each tool prints: a figure, a fault of the hardware, nothing of its kind, or no result."""

from __future__ import annotations

import pytest

from b200kit.node.acceptance.readers import HardwareFailed, Printed, ToolNotApplicable, read
from b200kit.node.acceptance.table import table
from b200kit.node.bandwidth.tests import Unusable
from tests.subtests import in_subtests
from tests.unit.node.acceptance import outputs
from tests.unit.node.acceptance.outputs import PEER, text

HOST = "host_to_device_memcpy_ce"
BURN = text("gpu-burn.txt")
VERIFY = "stress-ng: fail:  [8671] vm: detected 5 bit errors\n"
FIO = text("fio-3.33.json")
PAIRS = ("nvbandwidth", PEER, "gpu_to_gpu_gb_per_s")
HOSTS = ("nvbandwidth", HOST, "host_to_gpu_gb_per_s")
TENSOR = ("gpu_burn", "gemm_tensor_gflops")
CPU = ("stress_ng", "cpu")
MEMORY = ("stress_ng", "vm")
WARNING = {"warnings": [{"warning": "row remap", "error_id": 8, "error_severity": 3}]}


def printed(out: str, status: int = 0, err: str = "", gpus: int = 8) -> Printed:
    """What a tool printed."""
    return Printed(out, err, status, gpus)


def junk(document: str) -> str:
    """Something before a document."""
    return f"WARN: libnccl not found {{maybe}}\n{document}".replace("{maybe}", "maybe")


@in_subtests(
    ("words", "log", "figures"),
    [
        (PAIRS, printed(outputs.nvbandwidth(PEER)), 56),
        (PAIRS, printed(junk(outputs.nvbandwidth(PEER))), 56),
        (HOSTS, printed(outputs.nvbandwidth(HOST)), 8),
        (("all_reduce",), printed(outputs.all_reduce()), 3),
        (CPU, printed("", err=text("stress-ng-0.15.06-cpu.txt")), 1),
        (MEMORY, printed("", err=text("stress-ng-0.15.06-vm.txt")), 1),
        (("fio",), printed(FIO), 2),
        (("fio",), printed(junk(FIO)), 2),
        (("dcgm",), printed(text("dcgm-4.6-pass.json")), 3),
        (("dcgm",), printed(junk(text("dcgm-4.6-pass.json"))), 3),
        (TENSOR, printed(BURN), 8),
    ],
)
def test_whole_log_gives_every_figure(words: tuple[str, ...], log: Printed, figures: int) -> None:
    assert len(read(words, log)) == figures


@in_subtests(
    ("words", "log", "metric", "subject", "value", "unit"),
    [
        (PAIRS, printed(outputs.nvbandwidth(PEER)),
         "gpu_to_gpu_gb_per_s", "GPU 0 to GPU 1", 740.1, "GB/s"),
        (("all_reduce",), printed(outputs.all_reduce()),
         "all_reduce_8_gib_gb_per_s", "8 GPUs", 839.0, "GB/s"),
        (CPU, printed("", err=text("stress-ng-0.15.06-cpu.txt")),
         "cpu_bogo_ops_per_s", "node", 1054.95, "1/s"),
        (("fio",), printed(FIO), "read_iops", "nvme0n1", 100548.951049, "1/s"),
        (("dcgm",), printed(outputs.dcgm_test("memory", 3, "Pass", **WARNING)),
         "dcgm_warnings", "node", 1.0, ""),
        (("dcgm",), printed(outputs.dcgm_test("memory", 3, "Skip")),
         "dcgm_skipped", "node", 1.0, ""),
        (TENSOR, printed(BURN), "gemm_tensor_gflops", "GPU 3", 1203025.0, "Gflop/s"),
    ],
)  # fmt: skip
def test_figure_is_the_tools_own(
    words: tuple[str, ...], log: Printed, metric: str, subject: str, value: float, unit: str
) -> None:
    found = {(one.metric, one.subject): (one.value, one.unit) for one in read(words, log)}
    figure, its_unit = found[metric, subject]
    assert (figure, its_unit) == (value, unit)


@in_subtests(
    ("words", "log"),
    [
        (PAIRS, printed(" Invalid value when checking the pattern at 0x7f\n", 1)),
        (("all_reduce",), printed(outputs.all_reduce(wrong=3), 3)),
        (("all_reduce",), printed(outputs.all_reduce(wrong=3))),
        (MEMORY, printed("", 2, VERIFY + text("stress-ng-0.15.06-vm.txt"))),
        (("fio",), printed(outputs.fio(error=5), 1)),
        (("fio",), printed(outputs.fio(error=5))),
        (("dcgm",), printed(outputs.dcgm_test("memory", 3, "Fail", **WARNING), 1)),
        (("dcgm",), printed(outputs.dcgm_test("memory", 3, "Fail"))),
        (TENSOR, printed(BURN.replace("GPU 6: OK", "GPU 6: FAULTY"))),
        (TENSOR, printed(BURN.replace("errors: 0 - 0", "errors: 0 - 12  (WARNING!)", 1))),
    ],
)
def test_what_the_tool_says_is_bad_is_bad_whatever_its_exit_status(
    words: tuple[str, ...], log: Printed
) -> None:
    with pytest.raises(HardwareFailed):
        read(words, log)


@in_subtests(
    ("words", "log"),
    [
        (PAIRS, printed(outputs.nvbandwidth(PEER).replace("Passed", "Waived"))),
        (("dcgm",), printed(outputs.dcgm_every("Skip"))),
        (("dcgm",), printed('{"DCGM Diagnostic": {"runtime_error": "GPU is not supported"}}', 1)),
    ],
)
def test_what_the_hardware_has_not_is_no_fault(words: tuple[str, ...], log: Printed) -> None:
    with pytest.raises(ToolNotApplicable):
        read(words, log)


LOGS = {
    PAIRS: outputs.nvbandwidth(PEER),
    ("all_reduce",): outputs.all_reduce(),
    MEMORY: text("stress-ng-0.15.06-vm.txt"),
    ("fio",): FIO,
    ("dcgm",): text("dcgm-4.6-pass.json"),
    TENSOR: BURN,
}


@in_subtests(
    ("words", "log"),
    [
        *((words, printed(log, 1)) for words, log in LOGS.items()),
        *((words, printed(log[: len(log) // 2])) for words, log in LOGS.items()),
        *((words, printed("")) for words in LOGS),
        *((words, printed("", 139, "Segmentation fault")) for words in LOGS),
        *((words, printed(log, gpus=9)) for words, log in LOGS.items() if words in (PAIRS, TENSOR)),
        (("all_reduce",), printed(outputs.all_reduce(gpus=7))),
        (("all_reduce",), printed(outputs.all_reduce().replace("#wrong", "other"))),
        (HOSTS, printed(outputs.nvbandwidth(HOST, lost=1))),
        (MEMORY, printed("", 1, text("stress-ng-0.15.06-usage.txt"))),
        (MEMORY, printed("", 2, text("stress-ng-0.15.06-vm.txt"))),
        (CPU, printed("", 0, text("stress-ng-0.15.06-vm.txt"))),
        (MEMORY, printed("", 0, text("stress-ng-0.15.06-vm.txt").rsplit("\n", 2)[0])),
        (("fio",), printed(text("fio-3.33-einval.json"), 1)),
        (("fio",), printed(outputs.fio(job_options={"direct": "0"}))),
        (("fio",), printed(outputs.fio(error=22))),
        (("fio",), printed('{"jobs": []}')),
        (("dcgm",), printed(outputs.dcgm_test("memory", 3, "Not Run"))),
        (("dcgm",), printed("{}")),
        (("dcgm",), printed(outputs.dcgm_every("Skip")[:-400])),
        (TENSOR, printed(BURN.replace("GPU 6: OK", ""))),
        (TENSOR, printed(BURN.replace("errors: 0 - 0", "errors: 0 - 0  (DIED!)"))),
    ],
)
def test_log_that_is_not_whole_says_nothing_of_the_hardware(
    words: tuple[str, ...], log: Printed
) -> None:
    with pytest.raises(Unusable):
        read(words, log)


def test_every_reader_of_the_table_gives_the_metrics_that_floors_are_set_for() -> None:
    given = {
        words: {one.metric for one in read(words, printed(log, err=log))}
        for words, log in {**LOGS, CPU: text("stress-ng-0.15.06-cpu.txt")}.items()
    }
    for test in table().tests:
        if test.reader in given:
            assert set(test.metrics) <= given[test.reader], test.name
