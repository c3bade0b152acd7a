"""`b200 explain`: every name of every kind, what is said of it, and what is meant by others."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from b200kit import cli
from b200kit.cli import topics
from b200kit.cli.command import USAGE
from b200kit.node.checks.judge import registered
from b200kit.node.state.event import KINDS as EVENTS
from b200kit.report import outcome
from b200kit.run.places import PACKAGE, RUNBOOK
from tests.messages import assert_message
from tests.subtests import in_subtests

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *words: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of `b200 explain`."""
    status = cli.main(["explain", *words])
    output = capsys.readouterr()
    return status, output.out, output.err


def explained(capsys: Capture, *words: str) -> list[dict[str, Any]]:
    """What is said of a name, as JSON."""
    status, out, _ = run(capsys, *words, "--json")
    assert status == 0
    found: list[dict[str, Any]] = json.loads(out)
    return found


def facts(topic: dict[str, Any], label: str) -> list[str]:
    """The texts under a label."""
    return [fact["text"] for fact in topic["facts"] if fact["label"] == label]


def test_alone_it_lists_the_kinds_with_an_example_that_is_one(capsys: Capture) -> None:
    status, out, _ = run(capsys)
    assert status == 0
    for kind, of in topics.KINDS.items():
        assert re.search(rf"^{kind} +{len(of.names())} .*b200 explain {of.such_as}$", out, re.M)
        assert of.such_as in of.names()


def test_a_kind_lists_its_names(capsys: Capture) -> None:
    status, out, _ = run(capsys, "check")
    assert status == 0
    assert {*registered()} <= {line.split()[0] for line in out.splitlines()}


def test_name_of_a_check_is_of_no_other_kind_but_an_event() -> None:
    kinds = {kind: {*of.names()} for kind, of in topics.KINDS.items()}
    checks, _ = kinds.pop("check"), kinds.pop("event")
    assert not [kind for kind, names in kinds.items() if names & checks]


def test_a_check_says_what_it_expects_by_whom_what_to_do_and_what_shows_it(capsys: Capture) -> None:
    [found] = explained(capsys, "nvlink.links")
    assert (found["kind"], found["name"]) == ("check", "nvlink.links")
    [expects] = facts(found, "expects")
    assert expects.startswith("18 links on hgx-b200 (measured: NVIDIA/nccl-tests#333")
    assert any("reset the GPU" in text for text in facts(found, "when it fails"))
    assert facts(found, "alerts") == ["B200FabricFault"]
    assert facts(found, "try it") == ["b200 judge --example gpu2-no-nvlink"]
    assert "nvlink.speed" in facts(found, "see also")[0]
    assert_message(run(capsys, "nvlink.links")[1])


@in_subtests("name", registered)
def test_every_check_says_what_to_do_when_it_fails(name: str) -> None:
    """The corpus has a fault of each that must be found, but for those that only tell."""
    found = dict(topics.KINDS["check"].topic("check", name).facts)
    assert found.get("when it fails") or name in TELLS


TELLS = {"identity.unique", "nics.ports", "pcie.replays", "serving.starting"}


@in_subtests(
    ("kind", "name"),
    lambda: [(kind, name) for kind, of in topics.KINDS.items() for name in of.names()],
    one_in=10,
)
def test_every_name_says_what_it_is(kind: str, name: str) -> None:
    topic = topics.KINDS[kind].topic(kind, name)
    assert topic.says
    assert "`" not in topic.says
    assert all(text.strip() for _, text in topic.facts)


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        (["driver"], {"key", "stage"}),
        (["live"], {"outcome"}),
        (["UNKNOWN"], {"outcome"}),
        (["NOT", "REACHED"], {"outcome"}),
        (["FAILED", "at", "gate"], {"outcome", "stage"}),
        (["exit", "2"], {"exit-code"}),
        (["certificate"], {"key"}),
        (["replica.out"], {"event"}),
        (["B200FabricFault"], {"alert"}),
        (["host-key-changed"], {"cause"}),
        (["reset-gpu"], {"action"}),
        (["gpu2-no-nvlink"], {"scenario"}),
        (["client-starved"], {"diagnosis"}),
        (["swappiness"], {"setting"}),
    ],
)
def test_a_name_is_shown_in_every_kind_that_has_it(
    words: list[str], kinds: set[str], capsys: Capture
) -> None:
    assert {topic["kind"] for topic in explained(capsys, *words)} == kinds


def test_an_unknown_name_is_refused_with_those_near_it(capsys: Capture) -> None:
    status, out, err = run(capsys, "nvlnk.links")
    assert (status, out, err.count("\n")) == (USAGE, "", 1)
    assert "nvlink.links" in err


def test_a_shell_completes_names(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("_B200_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "b200 explain nvlink.l")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert cli.main([]) == 0
    assert capsys.readouterr().out == "plain,nvlink.links\n"


def test_a_result_ends_with_the_name_to_ask_about(capsys: Capture) -> None:
    assert cli.main(["judge", "--example", "gpu2-no-nvlink"]) == 1
    out = capsys.readouterr().out
    assert "b200 explain nvlink.links" in out
    assert "nvlink.links  read: " in " ".join(out.split("\n"))
    cli.main(["judge", "--example", "healthy"])
    assert "b200 explain" not in capsys.readouterr().out


def test_every_outcome_event_and_alert_has_its_words() -> None:
    kinds = topics.KINDS
    assert len(kinds["outcome"].names()) == len(outcome.WORDS)
    text = "".join(path.read_text() for path in (PACKAGE / "node").rglob("*.py"))
    told = set(re.findall(r'"((?:mend|replica|fault)\.[a-z-]+)"', text)) - {"replica.slow"}
    assert told <= {*EVENTS}
    sections = re.findall(r"^## (\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    assert {*kinds["alert"].names()} == {*sections}
