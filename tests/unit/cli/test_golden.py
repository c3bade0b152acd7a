"""`b200 golden`: what a reference is of, and how a wrong one is replaced without erasing it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from b200kit import cli
from b200kit.node.client.golden.answer import Answer
from b200kit.records import golden
from b200kit.records.entries import GoldenWord, Record
from b200kit.records.store import GOLDEN, Records
from tests.messages import TIME, assert_message
from tests.unit.node.client.golden_answers import another, answers, changed
from tests.unit.records import runs

SOUND, WRONG = answers(), changed(another)
KEY = golden.key(runs.run_conditions(), 32)
NAME = golden.name_of(KEY)


RECORDS = Records(GOLDEN)


def said(node: str, *replicas: Sequence[Answer]) -> bool:
    """A node's replicas said so; whether it was added."""
    at = "2026-11-24T10:00:00Z"
    return RECORDS.append(NAME, GoldenWord(node, at, KEY, len(replicas), tuple(replicas[0])))


def run(capsys: pytest.CaptureFixture[str], *arguments: str, exit_code: int = 0) -> str:
    """Run a sub-command; what it printed."""
    assert cli.main(["golden", *arguments]) == exit_code
    output = capsys.readouterr()
    return TIME.sub("TIME", output.out + output.err)


def kept() -> tuple[Record, object]:
    """The record, and the node whose word is the reference."""
    record = RECORDS.read(NAME)
    found = golden.reference(record, 0.5)
    return record, found and found.node


FORGET = ("forget", NAME[:6], "--by", "ops-on-call", "--why", "made by a bad driver")


def test_wrong_reference_is_replaced_and_stays_in_the_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said("n01", WRONG, WRONG)
    assert not said("n01", WRONG, WRONG)
    before = RECORDS.read(NAME).entries
    assert_message(run(capsys, "show"), run(capsys, *FORGET))
    assert kept()[1] is None
    # Whoever said it may say it again, and others something else: that decides now.
    said("n02", SOUND, SOUND)
    record, node = kept()
    assert (node, len(record.entries), record.entries[:1]) == ("n02", 3, before)
    assert_message(run(capsys, "show", NAME))
    assert golden.against(record, "n01", {"direct-0": WRONG}, 0.5).outcome == "different"
    assert said("n01", WRONG, WRONG)


def test_what_is_not_there_cannot_be_shown_or_forgotten(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "show", exit_code=2)
    run(capsys, *FORGET, exit_code=1)
    said("n01", SOUND)
    assert "no two replicas alike" in run(capsys, "show")
    run(capsys, "forget", NAME, "--by", " ", "--why", "x", exit_code=1)
    run(capsys, *FORGET)
    assert "nothing is to be forgotten" in run(capsys, *FORGET, exit_code=1)
    assert "nobody has answered since" in run(capsys, "show")
