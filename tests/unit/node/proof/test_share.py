"""What share of a whole node's load a node may have, by its proof and by what it was given."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from b200kit.node.lib import documents
from b200kit.node.lib.boot_clock import Moment
from b200kit.node.proof import share, share_answer
from b200kit.node.proof.document import Consequence, Proof, ProofRules
from b200kit.node.proof.evidence import FAIL, PASS, Evidence
from tests.subtests import in_subtests
from tests.unit.node.proof.test_document import first, latency, later, look, next_of

RULE = Consequence(50, 600.0)
NEVER = Consequence(50, 1e9)
# A look holds 120 s, and the first proof is of the 1,000th second of its boot.
SOUND = first()


def at(seconds: float, proof: Proof | None = SOUND, given: int = 100,
       rule: Consequence | None = RULE, boot: str = "boot-a") -> int:  # fmt: skip
    """The share so many seconds after the first proof."""
    return share.percent(proof, Moment(boot, 1000.0 + seconds), given, rule)


@in_subtests(
    ("seconds", "changes", "percent"),
    [
        (0, {}, 100),
        (119, {}, 100),
        (121, {}, 50),
        (719, {}, 50),
        (721, {}, 0),
        (721, {"rule": NEVER}, 50),
        (121, {"rule": Consequence(50, 0.0)}, 0),
        (121, {"rule": Consequence(0, 600.0)}, 0),
        (721, {"rule": None}, 100),
        (0, {"given": 5}, 5),
        (121, {"given": 5}, 2),
        (121, {"given": 1}, 1),
        (721, {"given": 5, "rule": None}, 5),
        (0, {"proof": None}, 0),
        (0, {"boot": "boot-b"}, 0),
        (0, {"proof": first(look(FAIL), latency())}, 50),
    ],
)
def test_share_is_that_of_the_proof_and_of_what_was_given(
    seconds: float, changes: dict[str, object], percent: int
) -> None:
    assert at(seconds, **changes) == percent  # type: ignore[arg-type]


def test_time_without_proof_is_counted_over_later_proofs_that_prove_nothing() -> None:
    failed = [SOUND]
    for seconds in (100.0, 400.0, 700.0):
        failed.append(next_of(failed[-1], later(seconds), look(FAIL), latency()))
    # The first of them failed while the one before held for 20 s more.
    assert [proof.expired_s for proof in failed] == [0.0, 0.0, 300.0, 600.0]
    assert [at(seconds, failed[2]) for seconds in (400.0, 699.0, 701.0)] == [50, 50, 0]
    mended = next_of(failed[-1], later(760.0))
    assert (mended.expired_s, at(760.0, mended)) == (0.0, 100)


def test_one_that_ran_out_by_itself_is_counted_from_then() -> None:
    found = next_of(SOUND, later(220.0), look(FAIL, digest="other"), latency())
    assert found.expired_s == pytest.approx(100.0)
    again = replace(found, evidence=(Evidence("look", PASS, ttl_s=120.0),))
    assert again.unproven_s(50.0) == pytest.approx(100.0)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the node keeps what it was given, and the controller's rules."""
    monkeypatch.setattr(share_answer, "GIVEN", tmp_path / "share.json")
    monkeypatch.setattr(share_answer, "RULES", tmp_path / "rules.json")
    monkeypatch.setattr(share_answer, "before", lambda: SOUND)
    return tmp_path


def test_what_was_given_is_kept_until_it_is_the_whole(files: Path) -> None:
    assert share_answer.now() == 100
    assert share_answer.main(["set", "5"]) == 0
    assert share_answer.now() == 5
    assert share_answer.main(["set", "100"]) == 0
    assert share_answer.now() == 100
    assert list(files.iterdir()) == []


@pytest.mark.parametrize("words", [[], ["set"], ["set", "0"], ["set", "101"], ["set", "-1"]])
def test_other_words_are_refused(files: Path, words: list[str]) -> None:
    assert share_answer.main(words) == 2
    assert list(files.iterdir()) == []


@pytest.mark.parametrize(
    ("rules", "percent"),
    [
        (documents.to_bytes(ProofRules("n01", {}, [])).decode(), 0),
        (documents.to_bytes(ProofRules("n01", {}, [], expired=NEVER)).decode(), 0),
        ("{", 0),
        (json.dumps({}), 0),
    ],
)
def test_proof_of_another_boot_and_rules_that_cannot_be_read_leave_nothing(
    files: Path, rules: str, percent: int
) -> None:
    (files / "rules.json").write_text(rules)
    assert share_answer.now() == percent
