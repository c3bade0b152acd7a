"""What the bandwidth tools print becomes results, or a reason why there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from b200kit.node.bandwidth.tests import (
    ALL_REDUCE,
    LOCAL,
    PEER,
    PROBES,
    TO_GPU,
    BandwidthResult,
    Unusable,
    read_all_reduce,
    read_nvbandwidth,
)
from tests.messages import raises_message
from tests.subtests import in_subtests

DATA = Path(__file__).parents[3] / "data" / "bandwidth"


def recorded(name: str) -> str:
    """A recorded output."""
    return (DATA / name).read_text(encoding="utf-8")


def nvbandwidth(**case: object) -> str:
    """Output of nvbandwidth -j with one test case."""
    return json.dumps({"nvbandwidth": {"testcases": [{"status": "Passed", **case}]}})


def test_recorded_all_reduce_is_read_by_its_header() -> None:
    rows = read_all_reduce(recorded("all-reduce-gb200-nvl72.txt"))
    assert [row.bytes for row in rows] == [1 << power for power in (29, 30, 31, 32, 33)]
    assert [row.value for row in rows] == [586.06, 681.17, 757.78, 839.16, 834.57]
    assert {row.wrong for row in rows} == {0}
    assert {row.tool_version for row in rows} == {"unknown"}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("all-reduce-gb10-cut.txt", "no whole table:  ?65536"),
        ("reduce-scatter-2019.txt", "no whole table"),
    ],
)
def test_table_that_is_cut_or_has_no_header_is_no_result(name: str, reason: str) -> None:
    with pytest.raises(Unusable, match=reason):
        read_all_reduce(recorded(name))


def test_all_reduce_names_the_versions_and_counts_the_ranks() -> None:
    output = recorded("all-reduce-gb10-cut.txt") + "# Out of bounds values : 0 OK\n"
    row = read_all_reduce(output)[-1]
    assert row.tool_version == "2.20.0, NCCL 23102"
    assert (row.subject, row.gpus, row.value) == ("2 GPUs", (0, 1), 0.96)


@pytest.mark.parametrize(
    ("before", "after", "wrong"),
    [
        ("834.57      0 ", "834.57      7 ", [0, 0, 0, 0, 7]),
        ("846.82      0", "846.82  2e+00", [0, 0, 0, 0, 2]),
        ("values : 0 OK", "values : 4 FAILED", [0, 0, 0, 0, 4]),
        ("834.57      0    20006  429.37  846.82      0",
         "834.57    N/A    20006  429.37  846.82    N/A", [0, 0, 0, 0, None]),
    ],
)  # fmt: skip
def test_wrong_values_of_either_placement_are_counted(
    before: str, after: str, wrong: list[int | None]
) -> None:
    output = recorded("all-reduce-gb200-nvl72.txt")
    assert output.count(before) == 1
    rows = read_all_reduce(output.replace(before, after))
    assert [row.wrong for row in rows] == wrong


def test_speed_that_is_no_number_has_no_value() -> None:
    output = recorded("all-reduce-gb200-nvl72.txt").replace("834.57", "   nan")
    assert read_all_reduce(output)[-1].value is None


def test_nvbandwidth_gives_one_result_a_gpu() -> None:
    results = read_nvbandwidth(recorded("nvbandwidth-h20-3e-local.json"), LOCAL)
    assert [result.subject for result in results] == [f"GPU {n}" for n in range(8)]
    assert results[2] == BandwidthResult(
        test="device_local_copy",
        tool="nvbandwidth",
        tool_version="v0.8",
        bytes=536870912,
        gpus=(2,),
        subject="GPU 2",
        value=1115.72,
        unit="GB/s",
        wrong=0,
    )


def test_nvbandwidth_gives_one_result_an_ordered_pair_and_none_of_a_gpu_with_itself() -> None:
    matrix = [["0.00", "740.1"], ["N/A", "0.00"]]
    results = read_nvbandwidth(nvbandwidth(name=PEER, bandwidth_matrix=matrix), PEER)
    assert [(r.subject, r.gpus, r.value) for r in results] == [
        ("GPU 0 to GPU 1", (0, 1), 740.1),
        ("GPU 1 to GPU 0", (1, 0), None),
    ]


@pytest.mark.parametrize(
    "said",
    [
        " Invalid value when checking the pattern at 0x7f00\n",
        nvbandwidth(error=" Invalid value when checking the pattern at <0x7f> Current offset [ 0"),
        '{"nvbandwidth": {"error": "ASSERT in expression h_errorFlag == 0 in void memcmp"}}',
    ],
)
def test_wrong_data_of_every_version_of_nvbandwidth_are_a_result(said: str) -> None:
    (result,) = read_nvbandwidth(said, TO_GPU)
    assert (result.wrong, result.value, result.test) == (1, None, TO_GPU)


@in_subtests(
    "output",
    [
        "",
        "cannot open shared object file\n",
        recorded("nvbandwidth-gb200-head.txt"),
        "{}",
        '{"nvbandwidth": 3}',
        '{"nvbandwidth": {"testcases": 3}}',
        '{"nvbandwidth": {"error": "[CUDA_ERROR] not\\n ready"}}',
        nvbandwidth(name="another", bandwidth_matrix=[["1"]]),
        nvbandwidth(name=TO_GPU, status="ERROR", bandwidth_matrix=[["1"]]),
        nvbandwidth(name=TO_GPU),
        nvbandwidth(name=TO_GPU, bandwidth_matrix=["55.4"]),
    ],
)
def test_nvbandwidth_without_a_result_says_why(output: str) -> None:
    with raises_message(Unusable):
        read_nvbandwidth(output, TO_GPU)


def test_what_nvbandwidth_waives_is_no_failure() -> None:
    assert read_nvbandwidth(nvbandwidth(name=PEER, status="Waived"), PEER) == []


def test_each_test_is_one_run_with_the_options_the_tools_know() -> None:
    assert len({probe.test for probe in PROBES}) == len(PROBES)
    argv = {probe.test: probe.argv("tool", 8) for probe in PROBES}
    assert argv[PEER] == ["tool", "-j", "-b", "512", "-t", "device_to_device_memcpy_read_ce"]
    assert argv[ALL_REDUCE] == ["tool", "-b", "256M", "-e", "8G", "-f", "2", "-g", "8"]
