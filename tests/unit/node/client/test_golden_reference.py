"""Answers held against a kept reference, or against nothing: what is found, and what is not."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.client import correctness
from b200kit.node.client.chat import Endpoint
from b200kit.node.client.golden import answer as golden_answer
from b200kit.node.client.golden import ask as golden
from b200kit.node.client.golden import reference
from b200kit.node.client.golden.answer import Answer
from b200kit.node.client.golden.reference import Reference
from b200kit.node.client.serving_config import Serving, load
from b200kit.node.lib import documents
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit import serving_document
from tests.unit.node.client.golden_answers import another, answers, changed, less_sure, replies
from tests.unit.node.client.server_thread import MODEL, fast, running

SOUND = answers()
KEPT = Reference(SOUND, 8, "n01, 2026-11-24T10:00:00Z", "this")
REAL = Path(__file__).parents[3] / "data" / "golden" / "tiny-vllm.json"
"""What vLLM 0.32.0 (CPU build) says with the lab's tiny model of random weights; measured."""


def test_other_answers_are_found_and_drift_is_not() -> None:
    assert_message(*reference.problems(replies(changed(another)), KEPT))
    for sound in (SOUND, changed(less_sure(1.0))):
        assert reference.problems(replies(sound), KEPT) == []
    assert KEPT.fault(changed(another)[2:3], 2)
    assert KEPT.fault(changed(another)[1:2], 1) == ""


def test_without_a_reference_only_what_is_no_answer_is_found() -> None:
    assert reference.problems(replies(changed(another)), None) == []
    assert_message(*reference.problems(replies([SOUND[0]] * 6), None))


def test_odd_answers_of_a_sound_model_are_no_alarm() -> None:
    real = documents.structure(tuple[Answer, ...], json.loads(REAL.read_text(encoding="utf-8")))
    assert reference.problems(replies(real), None) == []
    # Its third answer alone ends in one token over and over; so may any two of its parts.
    for short in range(4, 33):
        assert golden_answer.degenerate([one[:short] for one in real]) == ""


@in_subtests(
    "changes",
    [{"schema": "x"}, {"set": "golden/0"}, {"answers": []}, {"tokens": None}, {"tolerance": 0},
     {"answers": [[{"text": "a", "logprob": -1.0, "top": {}}]]}],
)  # fmt: skip
def test_file_that_is_no_reference_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(documents.Malformed, match=r"prompt|schema|tokens|tolerance"):
        documents.structure(Reference, documents.unstructure(KEPT) | changes)


def on_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kept: Reference) -> None:
    """The node has this reference."""
    path = tmp_path / "golden.json"
    path.write_bytes(documents.to_bytes(kept))
    monkeypatch.setattr(reference, "PATH", str(path))


def test_reference_holds_for_its_own_configuration_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(reference, "PATH", str(tmp_path / "none"))
    assert reference.of_node("this", 8) is None
    on_node(monkeypatch, tmp_path, KEPT)
    assert reference.of_node("this", 8) == KEPT
    for other in (("that", 8), ("this", 9), ("", 8)):
        assert reference.of_node(*other) is None
    (tmp_path / "golden.json").write_text("{")
    assert reference.of_node("this", 8) is None


def serving(tmp_path: Path, url: str) -> Serving:
    """What the node serves."""
    asked = {"golden_for": "this", "smoke": {"golden_tokens": 8}}
    return load(serving_document.written(tmp_path, url, [], **asked))


def checked(tmp_path: Path, fault: str) -> tuple[str, ...]:
    """What the correctness check finds of a stand-in with a fault."""
    with running(fast(fault)) as url:
        found = correctness.check_and_read(Endpoint(url), serving(tmp_path, url), "test")
        return asyncio.run(found).problems


def test_correctness_check_reads_the_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(reference, "PATH", str(tmp_path / "none"))
    assert checked(tmp_path, "") == checked(tmp_path, "no-logprobs") == ()
    assert checked(tmp_path, "garbled") == ()
    assert_message(*checked(tmp_path, "parrot"))
    with running() as url:
        said = asyncio.run(golden.ask(Endpoint(url), MODEL, 8, "kept")).answers
    on_node(monkeypatch, tmp_path, replace(KEPT, answers=said))
    assert checked(tmp_path, "") == checked(tmp_path, "drifted") == ()
    assert_message(*checked(tmp_path, "garbled"))


def test_words_of_a_server_without_log_probabilities_are_read() -> None:
    for fault, found in (("", False), ("parrot", True)):
        with running(fast(fault)) as url:
            said = asyncio.run(golden.ask(Endpoint(url), MODEL, 8, "words", as_words=True))
        assert bool(reference.problems(said, None)) is found
