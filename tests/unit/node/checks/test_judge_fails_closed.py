"""What is missing, odd or unknown is never fit, and nothing makes the judgement raise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from b200kit.node.checks.findings import each_gpu, passed
from b200kit.node.checks.judge import Check, judge, run_one
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding, Status
from b200kit.node.state.view import GpuView, StateView, Unread
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit import corpus, node_schema, paths, readings, states
from tests.unit.case import Case

MAY_BE_ABSENT = {
    f"kernel.driver_options.{key}" for key in ("NvLinkDisable", "RmNvlinkBandwidthLinkCount")
}
"""Options that an older driver does not have, and that cannot be set there."""


MAY_BE_UNREAD = {
    "pci.nics[*].switch_management": "of a NIC beside all of the NVSwitches' own: a note says so",
}
"""Readings whose last place, a data NIC here, need not be read, and why."""


def is_judged(kind: str) -> bool:
    """Whether a check needs a reading of a kind, or a part."""
    return node_schema.is_judged(readings.branches()[kind])


@in_subtests("kind", readings.branches, one_in=10)
def test_what_is_not_measured_is_never_fit_where_it_is_judged(kind: str) -> None:
    must_be = is_judged(kind) and kind not in MAY_BE_UNREAD
    assert (readings.verdict_gone(kind).fit != "fit") is must_be


@in_subtests("kind", MAY_BE_UNREAD)
def test_what_need_not_be_read_is_noted_and_of_the_first_place_never_fit(kind: str) -> None:
    notes = [f for f in readings.verdict_gone(kind).findings if f.action is Action.MONITOR]
    assert [f.read for f in notes] == [readings.GONE["unmeasured"]]
    first = readings.with_one(readings.places()[kind][0], readings.GONE)
    assert judge(states.expectation(), first).fit == "unmeasured"


def judged() -> list[str]:
    """Kinds of reading, and parts, that a check needs."""
    return [kind for kind in readings.branches() if is_judged(kind)]


@in_subtests("kind", judged, one_in=10)
def test_what_is_missing_is_never_fit_where_it_is_judged(kind: str) -> None:
    assert (judge(states.expectation(), readings.without_one(kind)).fit == "fit") is (
        kind in {*MAY_BE_ABSENT, *MAY_BE_UNREAD}
    )


def test_a_node_without_all_that_is_not_judged_is_fit() -> None:
    state = states.healthy()
    whole = [kind for kind in readings.branches() if not is_judged(kind)]
    top = [k for k in whole if not any(k.startswith((f"{w}.", f"{w}[")) for w in whole)]
    paths.remove(state, [readings.branches()[kind] for kind in top if not kind.endswith("]")])
    assert judge(states.expectation(), state).fit == "fit"


@in_subtests("kind", readings.branches, one_in=10)
def test_what_is_not_measured_is_told_as_not_measured(kind: str) -> None:
    """Never as a fault: the action against a fault that nobody saw would be a wrong one."""
    failed = [f.summary for f in readings.verdict_gone(kind).findings if f.status is Status.FAIL]
    assert failed == []


@in_subtests(
    "document",
    [None, {}, [], "", 0, True, {"schema": "b200kit/node-state/2"}, {"unmeasured": "no route"}],
)
def test_no_state_or_one_of_an_unknown_schema_is_unmeasured(document: object) -> None:
    verdict = judge(states.expectation(), document)
    assert verdict.fit == "unmeasured"
    assert verdict.exit_status == 2


@pytest.mark.parametrize("document", [None, {}, {"schema": "b200kit/expect/9"}])
def test_no_expectation_is_unmeasured(document: object) -> None:
    assert judge(document, states.healthy()).fit == "unmeasured"


def fits_without(name: str, case: Case) -> bool:
    """Whether the node of a case is fit when a threshold is missing."""
    expect = case.expectation()
    del expect["hardware"]["expect"][name]
    return judge(expect, case.state()).fit == "fit"


def thresholds() -> list[str]:
    """Every value that the hardware file expects."""
    return sorted(states.expectation()["hardware"]["expect"])


@in_subtests("name", thresholds, one_in=10)
def test_a_threshold_that_is_missing_is_never_fit(name: str) -> None:
    """Some are needed only with an old driver, a passport, measured figures or replicas there."""
    harmless, subject = corpus.cases("fit"), name.split(".")[0]
    file = {"nvls": "placement"}.get(subject, subject)
    read = ("bandwidth", "driver", "passport", "placement")
    noted = [case for case in harmless if case.file == file in read]
    # The check reads gpu_count of the expectation, which the inventory may set, and the inventory
    # alone is held to the power limits that such a GPU takes: on a node each GPU says its own. What
    # an all-reduce reaches without NVLS only explains one that is below its floor.
    fits = all(fits_without(name, case) for case in noted or harmless[:1])
    assert fits is (name in ("gpu_count", "power.range", "bandwidth.all_reduce_without_nvls"))


@pytest.mark.parametrize("key", ["hardware", "driver", "gpu_count", "services"])
def test_a_part_of_the_expectation_that_is_missing_is_never_fit(key: str) -> None:
    expect = states.expectation()
    del expect[key]
    assert judge(expect, states.healthy()).fit == "unmeasured"


def test_a_check_that_raises_or_finds_nothing_is_unmeasured() -> None:
    def broken(expect: Expectation, state: StateView) -> Iterator[Any]:
        raise ZeroDivisionError("oops")

    def silent(expect: Expectation, state: StateView) -> list[Any]:
        return []

    expect, view = Expectation(states.expectation()), StateView(states.healthy())
    checks: list[Check] = [broken, silent]
    for run in checks:
        found = run_one("x", run, expect, view)
        assert [f.status for f in found] == [Status.UNMEASURED]


def test_a_check_that_raises_after_a_pass_is_unmeasured() -> None:
    def halfway(expect: Expectation, state: StateView) -> Iterator[Finding]:
        del expect, state
        yield passed("the first half is well")
        raise ZeroDivisionError

    found = judge(states.expectation(), states.healthy(), {"half": halfway})
    assert [(one.check, one.status) for one in found.findings] == [
        ("half", Status.PASS),
        ("half", Status.UNMEASURED),
    ]


def test_all_is_not_called_well_beside_a_part_that_was_not_read() -> None:
    def of_gpu(gpu: GpuView) -> Iterator[Finding]:
        if gpu.index == 3:
            raise Unread("gpus[3].x", "it hangs")
        return iter(())

    found = each_gpu(StateView(states.healthy()), of_gpu, passed("all is well"))
    assert [(one.subject, one.status) for one in found] == [("GPU 3", Status.UNMEASURED)]


def test_a_judgement_by_no_checks_is_not_fit() -> None:
    assert judge(states.expectation(), states.healthy(), {}).fit == "unmeasured"


def test_a_gpu_fault_names_the_part_to_pull() -> None:
    expect, state = states.expectation(), states.recorded("gpu2-no-nvlink")
    finding = judge(expect, state).blocking[0]
    assert_message(finding.summary)
    for name in ("GPU 2", "module 7", "0000:96:00.0", "1650000000003", "GPU-00000002"):
        assert name in finding.part


def test_one_gpu_out_of_the_fabric_is_one_finding_a_kind_and_not_fourteen() -> None:
    verdict = judge(states.expectation(), states.recorded("gpu2-no-nvlink"))
    p2p = [f for f in verdict.blocking if f.check.startswith("p2p")]
    assert [f.subject for f in p2p] == ["GPU 2"] * 3
    assert "7 of its 7 peers" in p2p[0].summary


def test_the_gpu_that_lost_its_link_is_blamed_and_not_its_peers() -> None:
    state = states.healthy()
    state["xids"] = [
        {"pci_address": "0000:8f:00.0", "code": 145, "text": "RLW_REMAP Fatal"},
        {
            "pci_address": "0000:90:00.0",
            "code": 45,
            "text": "pid=1, Ch 1 caused by previous Xid 149",
        },
        {"pci_address": "0000:96:00.0", "code": 149, "text": "NETIR_LINK_EVT Fatal"},
    ]
    blocking = judge(states.expectation(), state).blocking
    assert [f.subject for f in blocking] == ["GPU 2"]


@pytest.mark.parametrize("name", ["healthy-hgx-b200", "healthy-snc2-four-nodes"])
def test_recorded_healthy_node_is_fit(name: str) -> None:
    verdict = judge(states.expectation(), states.recorded(name))
    assert verdict.fit == "fit", [f.summary for f in verdict.blocking]
