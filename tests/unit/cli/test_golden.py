"""`b200 golden`: what a reference is of, and how a wrong one is replaced without erasing it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from b200kit import cli
from b200kit.node.client.golden.answer import Answer
from b200kit.records import golden, store
from b200kit.records.entries import GoldenWord, Record
from tests.messages import TIME, assert_message
from tests.unit.node.client.golden_answers import another, answers, changed
from tests.unit.records import runs

SOUND, WRONG = answers(), changed(another)
KEY = golden.key(runs.run_conditions(), 32)
NAME = golden.name_of(KEY)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory of records."""
    monkeypatch.setenv(store.VARIABLE, str(tmp_path))
    return tmp_path / golden.FOLDER


def said(folder: Path, node: str, *replicas: Sequence[Answer]) -> bool:
    """A node's replicas said so; whether it was added."""
    at = "2026-11-24T10:00:00Z"
    return store.append(folder, NAME, GoldenWord(node, at, KEY, len(replicas), tuple(replicas[0])))


def run(capsys: pytest.CaptureFixture[str], *arguments: str, exit_code: int = 0) -> str:
    """Run a sub-command; what it printed."""
    assert cli.main(["golden", *arguments]) == exit_code
    output = capsys.readouterr()
    return TIME.sub("TIME", output.out + output.err)


def kept(folder: Path) -> tuple[Record, object]:
    """The file, and the node whose word is the reference."""
    record = store.read(folder, NAME)
    found = golden.reference(record, 0.5)
    return record, found and found.node


FORGET = ("forget", NAME[:6], "--by", "ops-on-call", "--why", "made by a bad driver")


def test_wrong_reference_is_replaced_and_stays_in_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(folder, "n01", WRONG, WRONG)
    assert not said(folder, "n01", WRONG, WRONG)
    before = (folder / f"{NAME}.jsonl").read_bytes()
    assert_message(run(capsys, "show"), run(capsys, *FORGET))
    assert kept(folder)[1] is None
    # Whoever said it may say it again, and others something else: that decides now.
    said(folder, "n02", SOUND, SOUND)
    record, node = kept(folder)
    assert (node, record.damage, len(record.entries)) == ("n02", (), 3)
    assert (folder / f"{NAME}.jsonl").read_bytes().startswith(before)
    assert_message(run(capsys, "show", NAME))
    assert golden.against(record, "n01", {"direct-0": WRONG}, 0.5).outcome == "different"
    assert said(folder, "n01", WRONG, WRONG)


def test_what_is_not_there_cannot_be_shown_or_forgotten(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "show", exit_code=2)
    run(capsys, *FORGET, exit_code=1)
    said(folder, "n01", SOUND)
    assert "no two replicas alike" in run(capsys, "show")
    run(capsys, "forget", NAME, "--by", " ", "--why", "x", exit_code=1)
    run(capsys, *FORGET)
    assert "nothing is to be forgotten" in run(capsys, *FORGET, exit_code=1)
    assert "nobody has answered since" in run(capsys, "show")


def test_file_that_was_changed_is_shown_with_that_and_not_added_to(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(folder, "n01", SOUND, SOUND)
    file = folder / f"{NAME}.jsonl"
    file.write_text(file.read_text().replace("w2.3", "w9.9"))
    for arguments in (("show",), FORGET):
        assert "was changed after it was written" in run(capsys, *arguments, exit_code=1)
    assert len(file.read_text().splitlines()) == 1
