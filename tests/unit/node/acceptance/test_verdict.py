"""What lines prove: each rule, and that each finding names its test, its subject and an action."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.acceptance import counters
from b200kit.node.acceptance.verdict import verdict
from b200kit.node.state.acceptance import AcceptancePlan, MetricValue, Outcome, SegmentLine
from b200kit.node.state.verdict import Action, Status, Verdict
from b200kit.node.state.view import StateView
from tests.subtests import in_subtests
from tests.unit import states
from tests.unit.node.acceptance.runs import COUNTERS, figures, floor, line, lines, plan

PAIRS = "gpu_to_gpu_gb_per_s"
LARGEST = "all_reduce_8_gib_gb_per_s"
FAIL, UNMEASURED, PASS = Status.FAIL, Status.UNMEASURED, Status.PASS
Found = tuple[str, Status, str, Action]


def bad(found: Verdict) -> list[Found]:
    """What is not as it should be."""
    return [
        (one.check.removeprefix("acceptance."), one.status, one.subject, one.action)
        for one in found.findings
        if one.status is not PASS or one.action is not Action.NONE
    ]


def with_value(
    run: AcceptancePlan, test: str, metric: str, subject: str, value: float
) -> list[SegmentLine]:
    """All well, but for one figure of a test."""

    def changed(one: SegmentLine) -> SegmentLine:
        values = tuple(
            replace(v, value=value) if (v.metric, v.subject) == (metric, subject) else v
            for v in one.values
        )
        return replace(one, values=values)

    return [changed(one) if one.test == test else one for one in lines(run)]


@in_subtests("level", ["smoke", "standard", "acceptance", "soak"])
def test_run_in_which_all_is_well_is_fit(level: Any) -> None:
    run = plan(level, floors={PAIRS: floor(650), LARGEST: floor(780)})
    found = verdict(run, lines(run))
    assert (found.fit, bad(found), found.not_applicable) == ("fit", [], {})
    assert {step.test for step in run.steps} == {
        one.check.removeprefix("acceptance.") for one in found.findings
    } - {"counters"}


def test_step_without_a_line_is_unmeasured() -> None:
    run = plan(tests=["gpu-to-gpu", "facts"])
    assert bad(verdict(run, lines(run)[:1])) == [("gpu-to-gpu", UNMEASURED, "node", Action.NONE)]


def test_run_without_lines_is_unmeasured() -> None:
    assert verdict(plan(), []).fit == "unmeasured"


@in_subtests(
    ("test", "outcomes", "expected"),
    [
        ("gemm-tensor", ("failed", "failed"), (FAIL, Action.REPLACE)),
        ("gemm-tensor", ("failed", "hung"), (FAIL, Action.RESET_GPU)),
        ("gemm-tensor", ("hung", "hung"), (FAIL, Action.RESET_GPU)),
        ("host-memory", ("hung", "hung"), (FAIL, Action.REBOOT)),
        ("host-memory", ("failed", "failed"), (FAIL, Action.REPLACE)),
        ("gemm-tensor", ("failed", "done"), (FAIL, Action.MONITOR)),
        ("gemm-tensor", ("failed", "machinery"), (FAIL, Action.MONITOR)),
        ("gemm-tensor", ("hung", "done"), (FAIL, Action.MONITOR)),
        ("gemm-tensor", ("failed",), (FAIL, Action.MONITOR)),
        ("gemm-tensor", ("machinery", "failed"), (FAIL, Action.MONITOR)),
        ("gemm-tensor", ("machinery", "machinery"), (UNMEASURED, Action.NONE)),
        ("gemm-tensor", ("missing",), (UNMEASURED, Action.NONE)),
        ("gemm-tensor", ("machinery", "done"), None),
        ("gemm-tensor", ("done",), None),
    ],
)
def test_first_failure_stands_and_a_second_run_decides_the_action(
    test: str, outcomes: tuple[Outcome, ...], expected: tuple[Status, Action] | None
) -> None:
    run = plan("standard", tests=[test])
    own = [line(run.steps[0], outcome, number) for number, outcome in enumerate(outcomes, 1)]
    found = bad(verdict(run, own))
    assert found == ([(test, expected[0], "node", expected[1])] if expected else [])


def test_missing_tool_is_named_with_the_line_that_brings_it() -> None:
    run = plan(
        "standard", tests=["host-memory"], missing={"stress-ng": "apt-get install stress-ng"}
    )
    (found,) = verdict(run, [line(run.steps[0], "missing")]).blocking
    assert (found.status, found.remedy) == (UNMEASURED, "apt-get install stress-ng")


def test_what_the_hardware_has_not_is_named_and_no_finding() -> None:
    run = plan(gpus=1, floors={PAIRS: floor(650)})
    found = verdict(run, [line(step) for step in run.steps])
    assert found.not_applicable.keys() == {
        "acceptance.gpu-to-gpu", "acceptance.all-reduce", f"acceptance.floors.{PAIRS}",
    }  # fmt: skip
    assert (found.fit, bad(found)) == ("fit", [])


@pytest.mark.parametrize("waived", [1, 2])
def test_what_a_tool_waives_though_the_plan_has_it_is_unmeasured(waived: int) -> None:
    run = plan("standard", tests=["disks"])
    ended = [line(step, "not applicable") for step in run.steps[:waived]]
    ended += [line(step) for step in run.steps[waived:]]
    found = verdict(run, ended)
    assert bad(found) == [("disks", UNMEASURED, "node", Action.NONE)] * waived
    assert not found.not_applicable


@in_subtests(
    ("holds", "limit", "unit", "expected"),
    [
        ("at least", 800, "GB/s", None),
        ("at least", 801, "GB/s", FAIL),
        ("at most", 800, "GB/s", None),
        ("at most", 799, "GB/s", FAIL),
        ("at least", 1, "Gbit/s", UNMEASURED),
    ],
)
def test_limit_holds_for_every_subject(
    holds: str, limit: float, unit: str, expected: Status | None
) -> None:
    run = plan(tests=["host-to-gpu"], floors={"host_to_gpu_gb_per_s": floor(limit, unit, holds)})
    found = verdict(run, lines(run)).blocking
    assert [one.status for one in found] == ([expected] * 8 if expected else [])
    assert {one.source for one in found} <= {"ours (measured, 2026-12-01)"}


def test_slow_subject_is_named() -> None:
    run = plan(tests=["host-to-gpu"], floors={"host_to_gpu_gb_per_s": floor(790)})
    slow = with_value(run, "host-to-gpu", "host_to_gpu_gb_per_s", "GPU 5", 700)
    assert bad(verdict(run, slow)) == [("host-to-gpu", FAIL, "GPU 5", Action.REPLACE)]


def test_figures_of_a_run_that_did_not_end_well_do_not_count() -> None:
    run = plan(tests=["host-to-gpu"], floors={"host_to_gpu_gb_per_s": floor(790)})
    crashed = line(run.steps[0], "machinery", values=figures(run.steps[0], 0.5))
    assert bad(verdict(run, [crashed, line(run.steps[0], attempt=2)])) == []


def test_limit_without_a_figure_is_unmeasured() -> None:
    run = plan(tests=["host-to-gpu"], floors={"host_to_gpu_gb_per_s": floor(1)})
    slowed = tuple(v for v in lines(run)[0].values if "slowdown" in v.metric)
    found = verdict(run, [line(run.steps[0], values=slowed)])
    assert bad(found) == [("host-to-gpu", UNMEASURED, "node", Action.NONE)]


def test_limit_that_no_test_measures_is_unmeasured_and_one_of_another_level_is_said() -> None:
    run = plan(tests=["facts"], floors={"misspelt": floor(1), "read_iops": floor(1)})
    found = verdict(run, lines(run))
    assert bad(found) == [("floors", UNMEASURED, "node", Action.NONE)]
    assert found.not_applicable == {"acceptance.floors.read_iops": "no part of level smoke"}


@in_subtests(
    ("metric", "fold", "expected"),
    [("gemm_tensor_gflops", "min", 790.0), ("dcgm_warnings", "sum", 1590.0),
     ("cool_down_s", "max", 800.0), ("idle_temperature_c", "last", 790.0)],
)  # fmt: skip
def test_segments_fold_as_the_metric_says(metric: str, fold: str, expected: float) -> None:
    test = {"gemm_tensor_gflops": "soak-tensor", "dcgm_warnings": "dcgm-r3",
            "cool_down_s": "cool-down", "idle_temperature_c": "facts"}[metric]  # fmt: skip
    run = plan("acceptance", tests=[test], floors={metric: floor(0, "", "at most")})
    first = replace(run.steps[0], segment=1), replace(run.steps[0], number=99, segment=2)
    run = replace(run, steps=first)
    ended = [line(first[0]), line(first[1])]
    ended[1] = replace(ended[1], values=tuple(
        replace(v, value=790.0) if v.metric == metric else v for v in ended[1].values))  # fmt: skip
    found = [one for one in verdict(run, ended).blocking if one.subject in ("GPU 0", "node")]
    assert (found[0].read, fold) == (f"{expected:g}", fold)


@in_subtests(("value", "lost"), [(680, True), (649, False), (751, False), (779, False)])
def test_all_reduce_at_the_speed_of_rings_has_lost_nvls(value: float, lost: bool) -> None:
    run = plan(tests=["all-reduce"], floors={LARGEST: floor(780)})
    (found,) = verdict(run, with_value(run, "all-reduce", LARGEST, "node", value)).blocking
    assert (found.status, found.action) == (FAIL, Action.REBOOT if lost else Action.REPLACE)
    assert ("NVLS" in found.summary) is lost


@in_subtests(
    ("before", "after", "expected"),
    [
        (800, 785, None),
        (800, 780, FAIL),
        (700, 690, None),
        (900, 880, None),
        (700, 620, None),
        (700, 580, FAIL),
    ],
)
def test_bandwidth_after_the_load_lies_within_the_spread_of_before(
    before: float, after: float, expected: Status | None
) -> None:
    run = plan("standard", tests=["gpu-to-gpu", "gpu-to-gpu-again"])
    ended = with_value(run, "gpu-to-gpu", PAIRS, "GPU 2", before)
    again = with_value(run, "gpu-to-gpu-again", PAIRS, "GPU 2", after)
    found = bad(verdict(run, [ended[0], again[1]]))
    name = "gpu-to-gpu-again"
    assert found == ([(name, expected, "GPU 2", Action.MONITOR)] if expected else [])


def test_bandwidth_after_the_load_without_one_before_is_unmeasured() -> None:
    run = plan("standard", tests=["gpu-to-gpu", "gpu-to-gpu-again"])
    ended = [line(run.steps[0], "machinery"), line(run.steps[0], "machinery", 2), lines(run)[1]]
    assert ("gpu-to-gpu-again", UNMEASURED, "node", Action.NONE) in bad(verdict(run, ended))


@in_subtests(
    ("metric", "value", "expected"),
    [
        ("hardware_thermal_slowdown", 1.0, (FAIL, Action.REPLACE)),
        ("software_thermal_slowdown", 1.0, (PASS, Action.MONITOR)),
        ("power_brake", 1.0, (PASS, Action.MONITOR)),
        ("software_thermal_slowdown", 0.0, None),
        (None, 0.0, (UNMEASURED, Action.NONE)),
    ],
)
def test_heat_that_slows_a_gpu_under_load(
    metric: str | None, value: float, expected: tuple[Status, Action] | None
) -> None:
    run = plan(tests=["gemm-tensor"])
    (ended,) = lines(run)
    own = "hardware_thermal_slowdown"
    kept = [v for v in ended.values if (v.metric, v.subject) != (own, "GPU 4")]
    kept += [MetricValue(own, "GPU 4", 0.0, "")] * (metric not in (own, None))
    kept += [MetricValue(metric or "", "GPU 4", value, "")] * (metric is not None)
    found = bad(verdict(run, [replace(ended, values=tuple(kept))]))
    assert found == ([("gemm-tensor", expected[0], "GPU 4", expected[1])] if expected else [])


@in_subtests(
    ("counter", "kind"),
    [
        ("ecc_volatile_uncorrected/GPU 3", FAIL),
        ("remap_pending/GPU 3", FAIL),
        ("remap_failed/GPU 3", FAIL),
        ("xids/GPU 3", FAIL),
        ("edac_ue/mc0", FAIL),
        ("edac_ce/mc0", PASS),
    ],
)
def test_counter_that_grows(counter: str, kind: Status) -> None:
    run = plan(tests=["facts", "facts-after"])
    first, last = lines(run)
    grown = {**COUNTERS, counter: COUNTERS[counter] + 1}
    during = [first, replace(last, after=grown)]
    between = [first, replace(last, before=grown, after=grown)]
    action = Action.REPLACE if kind is FAIL else Action.MONITOR
    expected = [("counters", kind, counter.partition("/")[2], action)]
    assert (bad(verdict(run, during)), bad(verdict(run, between))) == (expected, expected)


@in_subtests("counter", ["xids/GPU 3", "edac_ue/mc0", "edac_ce/mc0"])
def test_counter_that_goes_backwards_or_is_lost_is_unknown(counter: str) -> None:
    run = plan(tests=["facts", "facts-after"])
    first, last = lines(run)
    high = {**COUNTERS, counter: 9}
    less = {name: value for name, value in COUNTERS.items() if name != counter}
    expected = [("counters", UNMEASURED, counter.partition("/")[2], Action.NONE)]
    for window in ({"before": high}, {"after": less}, {"before": less}):
        ended = [first, replace(last, **window)]  # type: ignore[arg-type]
        assert bad(verdict(run, ended)) == expected


def test_counter_of_another_boot_begins_anew() -> None:
    run = plan(tests=["facts", "facts-after"])
    first, last = lines(run)
    high = {**COUNTERS, "xids/GPU 0": 2}
    first = replace(first, before=high, after=high)
    assert bad(verdict(run, [first, replace(last, boot_id="boot-2")])) == []
    assert bad(verdict(run, [first, last])) == [("counters", UNMEASURED, "GPU 0", Action.NONE)]


def test_message_of_a_gpu_that_has_none_yet_counts() -> None:
    run = plan(tests=["facts"])
    (only,) = lines(run)
    found = verdict(run, [replace(only, after={**COUNTERS, "xids/0000:8f:00.0": 1})])
    assert bad(found) == [("counters", FAIL, "0000:8f:00.0", Action.REPLACE)]


@in_subtests("counter", ["xids", "remap_failed", "edac_ue"])
def test_counter_that_every_node_has_and_was_never_read_is_unmeasured(counter: str) -> None:
    run = plan(tests=["facts"])
    less = {name: n for name, n in COUNTERS.items() if not name.startswith(f"{counter}/")}
    found = verdict(run, [line(run.steps[0], before=less, after=less)])
    assert {one[:2] for one in bad(found)} == {("counters", UNMEASURED)}


@in_subtests(
    ("before", "after", "expected"),
    [
        ((8.0,), (8.0,), None),
        ((8.0,), (7.0,), (FAIL, Action.POWER_CYCLE)),
        ((8.0,), (), (FAIL, Action.POWER_CYCLE)),
        ((), (8.0,), (UNMEASURED, Action.NONE)),
    ],
)
def test_every_boot_counts_the_same(
    before: tuple[float, ...],
    after: tuple[float, ...],
    expected: tuple[Status, Action] | None,
) -> None:
    run = plan("acceptance", tests=["reboot", "boot"])
    ended = [
        line(
            step,
            values=tuple(
                MetricValue("gpus", "node", n, "")
                for n in ((before, after)[step.test == "boot"] if step.segment == 2 else (8.0,))
            ),
        )
        for step in run.steps
    ]
    assert [step.test for step in run.steps] == ["reboot", "boot"] * 3
    found = bad(verdict(run, ended))
    assert found == ([("boot", expected[0], "node", expected[1])] if expected else [])


def test_line_of_a_boot_without_that_of_its_reboot_is_no_pass() -> None:
    run = plan("acceptance", tests=["reboot", "boot"])
    ended = [one for one in lines(run) if one.test == "boot"]
    assert verdict(run, ended).fit == "unmeasured"


FALLEN = "NVRM: Xid (PCI:0000:{}): 79, pid=1, GPU has fallen off the bus."


@pytest.fixture(autouse=True)
def edac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two memory controllers, of which one does not say its corrected errors."""
    for name, content in {"mc0/ue_count": "0\n", "mc0/ce_count": "7\n", "mc1/ue_count": "2\n",
                          "mc1/ce_count": "many\n"}.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(counters, "EDAC", tmp_path)
    return tmp_path


def test_every_counter_of_a_node_is_read() -> None:
    found = counters.read(StateView(states.healthy()), lambda: [])
    names = {name.partition("/")[0] for name in found}
    gpus_own = counters.OF_GPUS.keys() | counters.OF_LINKS.keys() | {"xids"}
    assert names == gpus_own | {"sxids", "edac_ue", "edac_ce"}
    assert names > counters.CORRECTED
    assert counters.lacking(8, dict(found)) == []
    own = {name: count for name, count in found.items() if name.startswith("edac")}
    assert own == {"edac_ue/mc0": 0, "edac_ce/mc0": 7, "edac_ue/mc1": 2}


def test_what_cannot_be_read_has_no_key() -> None:
    state = states.healthy()
    state["gpus"][3]["ecc_volatile_uncorrected"] = {"unmeasured": "Not Supported (3)"}
    state["gpus"][4]["links"][5]["recovery_failed"] = {"unmeasured": "Unknown Error (999)"}

    def no_log() -> list[str]:
        raise OSError("not permitted")

    found = counters.read(StateView(state), no_log)
    assert "ecc_volatile_uncorrected/GPU 2" in found
    assert "ecc_volatile_uncorrected/GPU 3" not in found
    assert "nvlink_recovery_failed/GPU 4" not in found
    assert not [name for name in found if name.startswith(("xids", "sxids"))]


def test_without_nvml_only_the_hosts_are_read() -> None:
    state = {"gpus": {"unmeasured": "it did not answer"}}
    found = counters.read(StateView(state), lambda: [])
    assert {name.partition("/")[0] for name in found} == {"edac_ue", "edac_ce", "sxids"}


def test_messages_are_counted_by_gpu_and_by_address_where_there_is_none() -> None:
    log = [FALLEN.format("8f:00"), FALLEN.format("8f:00"), FALLEN.format("01:00")]
    found = counters.read(StateView(states.healthy()), lambda: log)
    own = {name: count for name, count in found.items() if name.startswith("xids/") and count}
    assert own == {"xids/GPU 0": 2, "xids/0000:01:00.0": 1}
