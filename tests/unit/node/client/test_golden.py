"""Golden answers: compared two by two, among replicas, and asked of a server."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.client import correctness
from b200kit.node.client.chat import Endpoint
from b200kit.node.client.golden import answer as golden_answer
from b200kit.node.client.golden import ask as golden
from b200kit.node.client.golden import reference
from b200kit.node.client.golden.answer import Answer, NoLogprobs, Token
from b200kit.node.client.golden.ask import Replies
from b200kit.node.client.golden.compare import Likeness, compare
from b200kit.node.client.golden.prompts import PROMPTS, TOLERANCE
from b200kit.node.client.golden.reference import Reference
from b200kit.node.client.golden.replicas import Golden, GoldenResult
from b200kit.node.client.serving_config import ServingConfig, load
from b200kit.node.lib import documents
from b200kit.node.lib.documents import Malformed, structure, unstructure
from tests.messages import assert_message, raises_message
from tests.sample import sample
from tests.subtests import in_subtests
from tests.unit import serving_document
from tests.unit.node.client.golden_answers import (
    another,
    answers,
    changed,
    less_sure,
    replies,
    token,
)
from tests.unit.node.client.server_thread import MODEL, fast, running

SOUND = answers()
TIED = tuple((token("w", 0.1), *answer[1:]) for answer in SOUND)
PARTED = tuple(
    (another(one[0]), *(token(f"later {n}", 9.0) for _ in one[1:])) for n, one in enumerate(TIED)
)
"""It went on with the other of two that were nearly tied, and then of course differently."""
COMPARED: list[tuple[str, Sequence[Answer], Sequence[Answer], Likeness, bool]] = [
    ("the same", SOUND, SOUND, Likeness.SAME, True),
    ("rounding", changed(less_sure(0.9 * TOLERANCE)), SOUND, Likeness.SAME, True),
    ("beyond it", changed(less_sure(1.1 * TOLERANCE)), SOUND, Likeness.DRIFTED, False),
    ("near tie", PARTED, TIED, Likeness.DRIFTED, True),
    ("another token", changed(another), SOUND, Likeness.DIFFERENT, False),
    ("a token that no one named", changed(lambda _: token("x")), SOUND, Likeness.DIFFERENT, False),
    ("one answer short", [*SOUND[:5], SOUND[5][:-1]], SOUND, Likeness.DIFFERENT, False),
    ("an answer less", SOUND[:5], SOUND, Likeness.DIFFERENT, False),
    ("none at all", [], [], Likeness.DIFFERENT, False),
]  # fmt: skip


@in_subtests(("name", "ours", "theirs", "likeness", "explained"), COMPARED)
def test_two_answers_are_the_same_drifted_or_different(
    name: str,
    ours: Sequence[Answer],
    theirs: Sequence[Answer],
    likeness: Likeness,
    explained: bool,
) -> None:
    for one, other in ((ours, theirs), (theirs, ours)):
        found = compare(one, other)
        assert (found.outcome, found.explained) == (likeness, explained), name


def test_place_and_distance_are_told() -> None:
    assert_message(*(compare(SOUND, it).why for it in (changed(less_sure(1)), changed(another))))
    assert compare(SOUND, changed(less_sure(1.0))).nats == pytest.approx(1.0)


def test_token_that_only_one_names_counts_by_the_least_it_can_be_apart() -> None:
    def hidden(one: Token) -> Token:
        return Token(one.text, one.logprob, {one.text: one.logprob, "third": -4.0, "fourth": -5.0})

    assert compare(SOUND, changed(hidden)).nats == pytest.approx(2.5)


def named(*said: Sequence[Answer] | Replies) -> Golden:
    """Replicas that said so."""
    whole = [one if isinstance(one, Replies) else replies(one) for one in said]
    return Golden({f"direct-{number}": one for number, one in enumerate(whole)}, 8)


WRONG, DRIFTED = changed(another), changed(less_sure(1.0))


def test_replica_that_differs_from_most_is_named() -> None:
    found = named(SOUND, WRONG, SOUND)
    assert_message(*found.wrong)
    assert (found.drifted, found.doubt, found.agreed) == ([], "", ())
    assert_message(*named(SOUND, SOUND, SOUND, DRIFTED).drifted)


def test_all_that_answer_alike_agree() -> None:
    for group in (named(SOUND), named(SOUND, SOUND), named(TIED, PARTED, TIED)):
        assert (group.wrong, group.drifted, group.doubt) == ([], [], "")
        assert group.agreed


def test_without_a_majority_none_is_blamed() -> None:
    for group in (named(SOUND, WRONG), named(SOUND, DRIFTED), named(SOUND, WRONG, SOUND, WRONG)):
        assert (group.wrong, group.drifted, group.agreed) == ([], [], ())
        assert "no majority" in group.doubt
    assert_message(named(SOUND, WRONG).doubt)


def test_what_answers_no_prompt_is_wrong_even_alone() -> None:
    same = tuple(SOUND[0] for _ in PROMPTS)
    stuck = tuple(tuple(token(f"a{n}") for _ in range(8)) for n in range(4)) + SOUND[:2]
    assert_message(*named(same).wrong, *named(stuck).wrong)
    assert_message(*named(Replies(error="golden prompt 2: HTTP 500")).wrong)
    two = named(same, same)
    assert len(two.wrong) == 2
    assert not two.agreed


def test_short_repetition_is_an_answer() -> None:
    stuck = tuple(tuple(token("a") for _ in range(8)) for _ in range(3)) + SOUND[:3]
    assert golden_answer.degenerate(stuck) == ""


def test_server_without_log_probabilities_is_unmeasured() -> None:
    found = named(SOUND, SOUND, Replies(unmeasured="the answers have no log-probabilities"))
    assert (found.wrong, found.agreed) == ([], ())
    assert_message(found.doubt)


def test_document_keeps_equal_answers_once_and_gives_them_back() -> None:
    document = json.loads(json.dumps(unstructure(named(SOUND, WRONG, SOUND).result())))
    assert document["answers"]["direct-2"] == "direct-0"
    assert {n: r["outcome"] for n, r in document["replicas"].items()} == {
        "direct-0": "same", "direct-1": "different", "direct-2": "same",
    }  # fmt: skip
    restored = structure(GoldenResult, document).said
    assert compare(restored["direct-2"], SOUND).outcome is Likeness.SAME
    assert compare(restored["direct-1"], WRONG).outcome is Likeness.SAME


@in_subtests(
    "said", [3, {"a": "b"}, {"a": []}, {"a": [[]]}, {"a": [[["x", 1]]]},
             {"a": [[{"text": "x", "logprob": 1e999, "top": {}}]]}],
)  # fmt: skip
def test_document_whose_answers_are_none_is_refused(said: object) -> None:
    with pytest.raises(Malformed, match="answers"):
        structure(GoldenResult, unstructure(named(SOUND).result()) | {"answers": said})


CONTENT: dict[str, Any] = {"token": "a", "logprob": -1.0}


@in_subtests(
    ("content", "error"),
    [
        (None, NoLogprobs),
        ([], NoLogprobs),
        ([CONTENT], NoLogprobs),
        ([{**CONTENT, "logprob": math.nan, "top_logprobs": [CONTENT]}], ValueError),
        ([{**CONTENT, "logprob": "x", "top_logprobs": [CONTENT]}], ValueError),
    ],
)
def test_answer_that_cannot_be_compared_is_refused(
    content: object, error: type[ValueError]
) -> None:
    with raises_message(error):
        golden_answer.read(content)


def test_texts_that_several_tokens_have_tell_nothing_apart() -> None:
    half = [{"token": "\N{REPLACEMENT CHARACTER}", "logprob": value} for value in (-1.0, -2.0)]
    [found] = golden_answer.read([{**half[0], "top_logprobs": [*half, CONTENT]}])
    assert found.top == {"a": -1.0}


def asked(fault: str = "", tokens: int = 8) -> Replies:
    """What a stand-in says."""
    with running(fast(fault)) as url:
        return asyncio.run(golden.ask(Endpoint(url), MODEL, tokens, "s"))


def test_two_servers_answer_alike_and_a_fault_of_one_is_seen() -> None:
    sound = asked()
    assert (len(sound.answers), sound.error, sound.unmeasured) == (len(PROMPTS), "", "")
    likeness = {
        fault: compare(asked(fault).answers, sound.answers).outcome
        for fault in ("", "garbled", "drifted", "parrot")
    }
    assert likeness == {
        "": Likeness.SAME, "garbled": Likeness.DIFFERENT, "drifted": Likeness.DRIFTED,
        "parrot": Likeness.DIFFERENT,
    }  # fmt: skip


def test_answers_without_log_probabilities_and_failures_are_told_apart() -> None:
    bare, refused = asked("no-logprobs"), asked("500")
    assert (bare.error, bare.answers) == ("", ())
    assert (refused.unmeasured, refused.answers) == ("", ())
    assert_message(bare.unmeasured, refused.error)
    assert "abort" in asked("abort").error


def rounded(chance: random.Random, logits: dict[str, float]) -> Token:
    """One healthy server's step: logits off by what kernels differ by, rounded to bfloat16."""
    step = 0.125
    seen = {
        text: round((value + chance.gauss(0, step / 4)) / step) * step
        for text, value in logits.items()
    }
    whole = math.log(sum(math.exp(value) for value in seen.values()))
    top = {text: value - whole for text, value in seen.items()}
    best = max(top, key=lambda text: (top[text], text))
    return Token(best, top[best], top)


def simulated(chance: random.Random, prompt: str) -> Answer:
    """A healthy server's answer. What comes next depends on the tokens so far alone.

    The likeliest token's lead is seldom small, as of a model that is sure of most (assumed).
    """
    said: list[Token] = []
    way = prompt
    for place in range(32):
        lead = random.Random(f"{way}/{place}").expovariate(1 / 3)
        names = {f"{way} {text}{place}": 24 - less for text, less in (("a", 0.0), ("b", lead))}
        said.append(rounded(chance, {**names, "c": 21 - lead, "d": 20 - lead, "e": 19 - lead}))
        way = said[-1].text if " b" in said[-1].text[len(way) :] else way
    return tuple(said)


def false_alarms(rounds: int, replicas: int, seed: int = 1) -> tuple[int, int]:
    """Rounds in which one is blamed or doubted, and in which answers parted. Simulated."""
    chance, alarms, parted = random.Random(seed), 0, 0
    for number in range(rounds):
        prompts = [f"{seed}/{number}/{prompt}" for prompt in range(len(PROMPTS))]
        found = named(*(tuple(simulated(chance, p) for p in prompts) for _ in range(replicas)))
        alarms += bool(found.wrong or found.drifted or found.doubt)
        parted += any(one.outcome is Likeness.DRIFTED for one in found.differences.values())
    return alarms, parted


def test_rounding_of_healthy_replicas_raises_no_alarm() -> None:
    """Simulated; `python -m tests.unit.node.client.test_golden` runs 10,000 rounds."""
    alarms, parted = false_alarms(len(sample(range(60), 3)), 4)
    assert alarms == 0
    assert parted > 0


if __name__ == "__main__":
    for replicas in (2, 4, 8):
        print(replicas, "replicas: alarms, partings of 10000:", false_alarms(10_000, replicas))


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


def serving(tmp_path: Path, url: str) -> ServingConfig:
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
