"""Every case of tests/corpus is judged as it says: fault, note or no alarm."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from b200kit.node.checks.judge import judge, registered
from b200kit.node.state import advice
from b200kit.node.state.verdict import Action, Finding, Status, Verdict
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit import corpus, states
from tests.unit.case import Case, Wanted
from tests.unit.corpus import read

SOUND = """
- name: one slow link
  source: made up
  set: {"gpus[3].links[7].speed_mbps": 26562}
  fit: unfit
  findings: [{check: nvlink.speed, action: reset-gpu}]
"""


def missing(case: Case, verdict: Verdict) -> list[Wanted]:
    """Findings the case asks for that the verdict has not."""
    return [w for w in case.findings if not any(w.matches(f, case.fit) for f in verdict.findings)]


def describe(verdict: Verdict) -> list[str]:
    """What a verdict has besides plain passes, for the message of a failed test."""
    seen = [f for f in verdict.findings if f.blocks or f.waiver or f.action is not Action.NONE]
    return [f"{f.check} {f.status.value} {f.action.word} {f.subject}: {f.summary}" for f in seen]


def test_every_case_can_be_used() -> None:
    assert corpus.read(corpus.FILES).problems == []


@in_subtests("case", corpus.cases, ids=lambda case: case.id)
def test_state_is_judged_as_the_case_says(case: Case) -> None:
    verdict = corpus.verdict_of(case.name)
    assert verdict.fit == case.fit, describe(verdict)
    assert missing(case, verdict) == [], describe(verdict)


@in_subtests("case", corpus.cases, ids=lambda case: case.id, one_in=10)
def test_state_is_one_that_a_node_can_report(case: Case) -> None:
    problems = case.invalid()
    assert (problems == []) is case.valid, problems or "the schema has nothing against it"


@cache
def findings_of_base(base: str, hardware: str) -> list[str]:
    """What the verdict on a state that no case changed has besides plain passes."""
    return describe(judge(states.expectation(hardware), states.recorded(base)))


# A restart without what is restarted, and what is left where nobody said anything of the cause.
_GENERIC = {advice.ladder(step, "node", "") for step in (Action.NONE, Action.RESTART_SERVICE)}
_UNIT = re.compile(r"[\w@.-]+\.(service|timer)")
# The GPU's own state, its links, memory and place: what reset, reboot and power are for.
_HARDWARE = (
    *("bandwidth", "clocks", "driver.gsp", "ecc", "fabric", "identity", "inforom", "memory.size"),
    *("nics", "nvlink", "nvml", "nvls", "p2p", "passport", "pcie", "recovery", "remap", "repair"),
    *("sxid", "thermal", "xid", "watchdog"),
)


def undue(finding: Finding) -> Iterator[str]:
    """What is wrong with the advice for a fault."""
    told = advice.of(finding)
    if any(told.startswith(generic) for generic in _GENERIC):
        yield "of no cause"
    if "restart" in told and not _UNIT.search(told) and "this virtual machine" not in told:
        yield "restarts nothing by name"
    if "fabricmanager" in told and "restart nvidia-fabricmanager" in told and "reset" not in told:
        yield "restarts the fabric manager and resets no GPU"
    by_ladder = told.startswith(advice.ladder(finding.action, "node", ""))
    if by_ladder and finding.action > Action.MONITOR and not finding.check.startswith(_HARDWARE):
        yield f"{finding.action.word} for what is no hardware"


@in_subtests("case", lambda: corpus.cases("unfit"), ids=lambda case: case.id)
def test_advice_follows_the_cause(case: Case) -> None:
    found = [f for f in corpus.verdict_of(case.name).findings if f.status is Status.FAIL]
    wrong = {(f.check, why, advice.of(f)) for f in found for why in undue(f)}
    assert wrong == set()


def test_every_line_of_the_advice_is_of_a_cause_there_is() -> None:
    steps = {action.word for action in Action}
    for cause in advice.BY_CAUSE:
        check, _, step = cause.partition(" ")
        assert check in registered() or _UNIT.fullmatch(check), cause
        assert step in {"", *steps}, cause


def without_a_note() -> list[Case]:
    """Cases of fit nodes about which nothing is to be said."""
    return [case for case in corpus.cases("fit") if not case.findings]


@in_subtests("case", without_a_note, ids=lambda case: case.id)
def test_harmless_state_asks_for_nothing(case: Case) -> None:
    """No note either: an eye that is asked for on healthy nodes soon sees nothing."""
    more = set(describe(corpus.verdict_of(case.name))) - set(
        findings_of_base(case.base, case.hardware)
    )
    assert more == set()


def test_the_corpus_is_of_a_size() -> None:
    assert len(corpus.cases("unfit", "unmeasured")) >= 60
    assert len(without_a_note()) >= 15


@pytest.mark.parametrize(
    ("sound", "broken"),
    [
        ("source:", "sauce:"),
        ("gpus[3].links[7].speed_mbps", "gpus[3].links[70].speed_mbps"),
        ("gpus[3].links[7].speed_mbps", "gpus[3].links[7].spede"),
        ("gpus[3].links[7].speed_mbps", "gpus[3]links"),
        ("nvlink.speed", "nvlink.sped"),
        ("reset-gpu", "kick"),
        ("check: nvlink.speed, ", ""),
        ("reset-gpu}", "reset-gpu, says: 7}"),
        ("fit: unfit", "fit: well"),
        ("made up", "''"),
        ("26562", "2026-11-21"),
        ("26562}", '26562, "gpus[3].links[7].speed_mbps": 1}'),
        ("fit: unfit", "fit: fit\n  alone: true"),
        ("  source: made up", "  source: made up\n  base: nosuch"),
    ],
)
def test_a_case_with_an_error_is_refused(sound: str, broken: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(SOUND)
    assert read([path]).problems == []
    assert sound in SOUND
    path.write_text(SOUND.replace(sound, broken))
    result = read([path])
    assert result.cases == []
    assert_message(" ".join(result.problems))


def test_a_name_stands_once_in_all_files(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / f"{name}.yaml").write_text(SOUND)
    result = read(sorted(tmp_path.glob("*.yaml")))
    assert len(result.cases) == 1
    assert_message(result.problems[0])


def test_set_reaches_every_place_and_drop_removes_it(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(
        SOUND.replace("gpus[3].links[7]", "gpus[*].links[*]")
        + '  drop: ["gpus[1].links[*]", "gpus[7]"]\n  expect: {driver: null, passport: renew}\n'
    )
    case = read([path]).cases[0]
    state, expect = case.state(), case.expectation()
    assert [len(gpu["links"]) for gpu in state["gpus"]] == [18, 0, 18, 18, 18, 18, 18]
    assert {link["speed_mbps"] for gpu in state["gpus"] for link in gpu["links"]} == {26562}
    assert (expect["driver"], expect["passport"]) == (None, "renew")
    assert states.healthy()["gpus"][0]["links"][0]["speed_mbps"] == 53125
