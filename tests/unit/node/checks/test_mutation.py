"""Every check is needed: with it taken away, a node that is not fit would pass or tell less."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from b200kit.node.checks.judge import judge, registered
from b200kit.node.state.verdict import Action, Verdict
from tests.subtests import in_subtests
from tests.unit import corpus
from tests.unit.case import Case, Wanted


def alone() -> list[Case]:
    """Cases in which one check alone keeps the node from going live."""
    return [case for case in corpus.cases() if case.alone]


def without(case: Case, checks: Collection[str]) -> Verdict:
    """The verdict of a case by all checks but some: what is left of that by all of them."""
    whole = corpus.verdict_of(case.name)
    return replace(whole, findings=tuple(f for f in whole.findings if f.check not in checks))


def still_reported(verdict: Verdict, wanted: Wanted) -> list[str]:
    """Findings of other checks that tell the cause, or ask for the same where it has no words."""
    return [
        f"{finding.check}: {finding.summary}"
        for finding in verdict.findings
        if (finding.blocks or finding.action is not Action.NONE)
        and (wanted.says or wanted.action == finding.action.word)
        and wanted.subject in ("", finding.subject)
        and wanted.tells(finding)
    ]


def proves(case: Case, check: str) -> bool:
    """Whether a case needs a check: to be blocked, or for a cause that nothing else tells."""
    if case.alone:
        return True  # what the test above shows
    verdict = without(case, {check})
    return any(
        not still_reported(verdict, wanted) for wanted in case.findings if wanted.check == check
    )


def first_of_each_file() -> list[Case]:
    """One such case of each file."""
    return list({case.file: case for case in reversed(alone())}.values())


@in_subtests("case", first_of_each_file, ids=lambda case: case.id)
def test_no_check_depends_on_whether_another_is_there(case: Case) -> None:
    """What the two tests below rest on: they leave findings out instead of judging again."""
    named = {wanted.check for wanted in case.findings}
    kept = {name: run for name, run in registered().items() if name not in named}
    again = judge(case.expectation(), case.state(), kept)
    assert again.findings == without(case, named).findings


@in_subtests("case", alone, ids=lambda case: case.id)
def test_without_its_check_the_faulty_node_would_pass(case: Case) -> None:
    verdict = without(case, {wanted.check for wanted in case.findings})
    assert verdict.fit == "fit", [f"{f.check}: {f.summary}" for f in verdict.blocking]


@in_subtests("check", registered)
def test_every_check_has_a_case_that_needs_it(check: str) -> None:
    naming = [c for c in corpus.cases() if check in {wanted.check for wanted in c.findings}]
    assert naming, f"no case of tests/corpus names {check}"
    assert any(proves(case, check) for case in sorted(naming, key=lambda c: not c.alone))
