"""One place says what is wrong and what to do: every command, journal and escalation show it."""

from __future__ import annotations

import re

from b200kit.inventory.keys.levels import MIN_LEVEL, Level
from b200kit.node import gate
from b200kit.node.fabric import sequence
from b200kit.node.lib.documents import unstructure
from b200kit.node.state import advice
from b200kit.node.state.verdict import Action, Finding, Status, Verdict
from b200kit.report.terminal import page
from b200kit.report.terminal.lines import Lines
from b200kit.reprovision.escalation import Attempt, EscalationLimits, choose
from tests.sample import sample
from tests.subtests import in_subtests
from tests.unit import corpus
from tests.unit.case import Case
from tests.unit.report import pages, records

NOW = 1_800_000_000.0
CLIMB = [level for level in Level if level is not Level.REPLACE]
LIMITS = EscalationLimits(dict.fromkeys(CLIMB, 1), 86_400.0)
SPENT = [Attempt(level, NOW - 60, "did not help", level.word) for level in CLIMB]


def unfit() -> list[Case]:
    """Every faulty node of the corpus."""
    return corpus.cases("unfit")


def plain(lines: object) -> str:
    """Text without its line breaks and columns."""
    return " ".join(str(lines).split())


def tells(text: str, finding: Finding) -> bool:
    """Whether a text says what to do about a finding, or that it is as with another part."""
    same = re.search(rf"the same of [^>]*{re.escape(finding.part)}", text)
    return plain(advice.of(finding)) in text or bool(same)


def failed(verdict: Verdict) -> list[Finding]:
    """What is at fault."""
    return [finding for finding in verdict.blocking if finding.status is Status.FAIL]


def host_of(case: Case, outcome: str) -> dict[str, object]:
    """The record of the node of a case."""
    verdict = unstructure(corpus.verdict_of(case.name))
    known = {"state": case.state(), "expectation": case.expectation(), "verdict": verdict}
    return {"outcome": outcome, **known}


@in_subtests("case", unfit, ids=lambda case: case.id, one_in=40)
def test_journal_and_commands_say_the_same_action(case: Case) -> None:
    """Of b200 judge, deploy/check.py and deploy/b200.py of a red node; the gate's at boot."""
    found = failed(corpus.verdict_of(case.name))
    shown = {"journal": plain("\n".join(gate.lines(corpus.verdict_of(case.name))))}
    judged = Lines()
    page.check_lines(judged, "n01", host_of(case, "unfit"))
    shown["judge"] = plain("\n".join(judged.found))
    for script, outcome in (("deploy/check.py", "unfit"), ("deploy/b200.py", "red")):
        record = records.record(script, n01=host_of(case, outcome))
        shown[script] = plain("\n".join(page.lines(record)))
    for finding in found:
        assert [name for name, text in shown.items() if not tells(text, finding)] == []


@in_subtests("case", unfit, ids=lambda case: case.id, one_in=10)
def test_escalation_takes_the_action_of_the_findings_and_names_their_parts(case: Case) -> None:
    found = corpus.verdict_of(case.name).blocking
    worst = max(finding.action for finding in found)
    first, last = choose(found, [], LIMITS, NOW), choose(found, SPENT, LIMITS, NOW)
    assert first.level is MIN_LEVEL.get(worst, Level.RESTART_SERVICES)
    assert first.why in [finding.summary for finding in found]
    assert last.level is Level.REPLACE
    named = {f.part or f.subject for f in found if f.action is worst} - {"node"}
    assert set(last.parts) == named
    if worst is Action.REPLACE:
        assert {f"replace {part}" for part in last.parts} <= {
            advice.of(f) for f in failed_of(found)
        }


def failed_of(found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.status is Status.FAIL]


def of_many() -> list[Case]:
    """Cases that change a reading of every part, or of pairs: most are faults of the node."""
    return [case for case in unfit() if case.file == "p2p" or any("[*]" in at for at in case.set)]


@in_subtests("case", of_many, ids=lambda case: case.id, one_in=5)
def test_bring_up_and_report_show_a_fault_of_the_node_in_the_same_words(case: Case) -> None:
    text = plain(pages.page(n01=host_of(case, "red")).text)
    for finding in failed(corpus.verdict_of(case.name)):
        assert tells(text, finding)
    at = sequence.position(case.expectation(), case.state())
    if at.observed and at.observed.subjects and at.observed.subject == "node":
        line = sequence.stuck_line(at, case.state())
        assert line.endswith(f"-> {at.observed.action.word}: {advice.of(at.observed)}")


def test_faults_of_the_node_are_among_them() -> None:
    some = [failed(corpus.verdict_of(case.name)) for case in sample(of_many(), 5)]
    assert len([found for found in some if any(f.subjects for f in found)]) > len(some) / 3
