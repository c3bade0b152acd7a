"""Verdicts: what adds up to fit, waivers and their end, and JSON both ways."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from b200kit.node.checks.judge import judge
from b200kit.node.lib.documents import Malformed, structure, unstructure
from b200kit.node.state.verdict import Action, Finding, Status, Verdict, finding_of, grouped
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit import broken_parts, states

WAIVER = {"check": "uniform.vbios", "owner": "ops", "reason": "J-1123", "until": "2026-12-01"}


def mixed_vbios(waiver: dict[str, Any], today: str = "2026-11-21") -> Verdict:
    """A node whose GPU 5 has another VBIOS, judged with one waiver."""
    expect, state = states.expectation(), states.healthy()
    state["gpus"][5]["vbios"] = "97.00.00.00.01"
    expect.update(waivers=[waiver], today=today)
    return judge(expect, state)


def test_a_waiver_in_force_lets_the_node_live_and_is_reported() -> None:
    verdict = mixed_vbios(WAIVER)
    assert verdict.fit == "fit"
    assert verdict.counts["waived"] == 1
    waived = next(f for f in verdict.findings if f.status is Status.WAIVED)
    assert waived.waiver == WAIVER


def test_a_waiver_holds_on_its_last_day_and_not_after() -> None:
    assert mixed_vbios(WAIVER, today="2026-12-01").fit == "fit"
    assert mixed_vbios(WAIVER, today="2026-12-02").fit == "unfit"


@in_subtests(
    "change",
    [
        {"owner": ""},
        {"reason": " "},
        {"until": "soon"},
        {"until": None},
        {"until": "20261201"},
        {"until": "2026-W49-2"},
        {"check": "uniform.inforom"},
        {"subject": "GPU 4"},
        {"subject": 5},
    ],
)
def test_a_waiver_that_is_incomplete_or_of_something_else_does_nothing(
    change: dict[str, Any],
) -> None:
    assert mixed_vbios({**WAIVER, **change}).fit == "unfit"


def test_a_waiver_of_the_one_subject_holds() -> None:
    assert mixed_vbios({**WAIVER, "subject": "GPU 5"}).fit == "fit"


def test_a_waiver_does_not_hold_without_a_date_of_today() -> None:
    expect, state = states.expectation(), states.healthy()
    state["gpus"][5]["vbios"] = "97.00.00.00.01"
    del expect["today"]
    expect["waivers"] = [WAIVER]
    assert judge(expect, state).fit == "unfit"


def test_a_state_that_cannot_be_judged_cannot_be_waived() -> None:
    expect = states.expectation()
    expect["waivers"] = [{**WAIVER, "check": "document.state"}]
    assert judge(expect, {}).fit == "unmeasured"


@pytest.mark.parametrize(
    ("statuses", "fit", "status"),
    [
        ([], "unmeasured", 2),
        (["pass", "waived"], "fit", 0),
        (["pass", "unmeasured"], "unmeasured", 2),
        (["unmeasured", "fail"], "unfit", 1),
    ],
)
def test_what_adds_up_to_fit(statuses: list[str], fit: str, status: int) -> None:
    verdict = Verdict(tuple(Finding(summary="x", status=Status(s)) for s in statuses))
    assert (verdict.fit, verdict.exit_status) == (fit, status)


def test_verdict_reads_back_and_is_computed_again() -> None:
    verdict = mixed_vbios(WAIVER)
    data = unstructure(verdict)
    assert data["schema"] == "b200kit/verdict/1"
    assert structure(Verdict, data) == verdict
    for lie in ({"fit": "unfit"}, {"counts": {**data["counts"], "fail": 1}}):
        with pytest.raises(Malformed):
            structure(Verdict, {**data, **lie})


@in_subtests("entry", [{"summary": "x", "status": "fine"}, {"summary": "x"}, {}, None])
def test_what_is_no_finding_reads_back_as_unmeasured(entry: object) -> None:
    assert finding_of(entry).status is Status.UNMEASURED


def test_the_ladder_rises() -> None:
    words = ["none", "monitor", "restart-service", "reset-gpu", "reboot", "power-cycle", "replace"]
    assert [action.word for action in sorted(Action)] == words
    assert Action.parse("replace") is Action.REPLACE
    assert Action.parse(None) is Action.MONITOR


def test_failures_are_told_before_what_could_not_be_read() -> None:
    expect, state = states.expectation(), states.healthy()
    state["gpus"][0]["mig"] = True
    state["gpus"][1]["remap"]["failure"] = True
    state["xids"] = {"unmeasured": "no permission"}
    assert [f.check for f in judge(expect, state).blocking] == [
        "remap.failure",
        "mode.mig",
        "xid.log",
    ]


def test_cause_is_told_before_its_symptom() -> None:
    expect, state = states.expectation(), states.healthy()
    for gpu in state["gpus"]:
        gpu["fabric"]["state"] = 2
    for kind in ("read", "write", "nvlink"):
        rows = state["p2p"][kind]
        state["p2p"][kind] = [[None if entry is None else 5 for entry in row] for row in rows]
    text = [f.summary for f in judge(expect, state).blocking]
    assert_message(text[0], *text[-3:])


def test_readings_gone_for_one_cause_are_told_once() -> None:
    gone = {"unmeasured": "Driver Not Loaded (9)"}
    state = {**states.healthy(), "nvml": gone, "gpus": gone, "p2p": gone}
    groups = grouped(judge(states.expectation(), state).blocking)
    assert groups[0][0].check == "nvml.available"
    assert len(groups) == 2
    assert groups[1][1] > 20


@in_subtests("number", range(broken_parts.FIXED), one_in=10)
def test_no_finding_names_a_healthy_gpu_as_the_part_at_fault(number: int) -> None:
    """Some GPUs of a fit state broken in some ways."""
    case = broken_parts.case(number)
    assert [*case.wrong()] == [], "; ".join(case.ways)


if __name__ == "__main__":
    # python -m tests.unit.node.state.test_blame 20000: as many as are asked for.
    cases = map(broken_parts.case, range(int(sys.argv[1])))
    told = [f"{c.number}: {'; '.join(c.ways)}: {found}" for c in cases if (found := [*c.wrong()])]
    sys.stdout.write("\n".join([*told, f"{len(told)} of {sys.argv[1]} blame who is whole\n"]))
