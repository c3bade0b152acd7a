"""A manifest is the pinned one, names only files of the model, and judges what is there."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from b200kit.node.weights.manifest import ManifestError, ManifestFile, parse, size_text, wrong
from tests.messages import assert_message, raises_message
from tests.subtests import in_subtests

SHA = "a" * 64
FILE = {"path": "weights/model-1.safetensors", "size": 3, "sha256": SHA}
ENTRIES = [ManifestFile("config.json", 2, SHA), ManifestFile("weights/a.bin", 3, SHA)]
HERE = {"config.json": (2, 11), "weights/a.bin": (3, 12), ".complete": (12, 1)}
PROOF = {"config.json": [2, 11], "weights/a.bin": [3, 12]}


def parsed(*files: Any) -> tuple[ManifestFile, ...]:
    """The entries of a manifest of these files, by its right revision."""
    raw = json.dumps({"files": files}).encode()
    return parse(raw, hashlib.sha256(raw).hexdigest())


def test_entries_are_those_of_the_document() -> None:
    assert parsed(FILE) == (ManifestFile("weights/model-1.safetensors", 3, SHA),)


def test_other_revision_is_refused() -> None:
    with raises_message(ManifestError):
        parse(b'{"files": []}', "000000000000")


@in_subtests(
    ("change", "why"),
    [
        ({"path": "../x"}, "outside the model: ../x"),
        ({"path": "/x"}, "outside"),
        ({"path": "a/./b"}, "outside"),
        ({"path": "a//b"}, "outside"),
        ({"path": ""}, "without a name"),
        ({"path": 3}, "path must be a text"),
        ({"path": "a\0b"}, "without a name"),
        ({"path": ".complete"}, "the toolkit's own"),
        ({"path": "manifest.json"}, "the toolkit's own"),
        ({"path": "model.partial"}, "the toolkit's own"),
        ({"size": -1}, "size must be"),
        ({"size": True}, "size must be"),
        ({"size": "3"}, "size must be"),
        ({"sha256": "A" * 64}, "sha256 must be"),
        ({"sha256": "a" * 63}, "sha256 must be"),
        ({"sha256": None}, "sha256 must be"),
    ],
)
def test_entry_that_cannot_be_is_refused_by_name(change: dict[str, Any], why: str) -> None:
    with pytest.raises(ManifestError, match=why):
        parsed(FILE | change)


def test_name_given_twice_is_refused() -> None:
    with pytest.raises(ManifestError, match=r"names weights/model-1.safetensors twice"):
        parsed(FILE, FILE)


def test_model_as_it_was_proven_has_nothing_wrong() -> None:
    assert wrong(ENTRIES, PROOF, HERE) == {}


@pytest.mark.parametrize(
    "here", [{"config.json": (3, 11)}, {"config.json": (2, 99)}, {"evil.py": (9, 9)}]
)
def test_what_differs_is_named(here: dict[str, tuple[int, int]]) -> None:
    assert_message(*map(": ".join, wrong(ENTRIES, PROOF, HERE | here).items()))


def test_file_that_is_gone_is_named() -> None:
    here = {path: seen for path, seen in HERE.items() if path != "weights/a.bin"}
    assert wrong(ENTRIES, PROOF, here) == {"weights/a.bin": "missing"}


def test_without_a_record_nothing_counts_as_proven() -> None:
    assert set(wrong(ENTRIES, {}, HERE)) == {"config.json", "weights/a.bin"}


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (141_200_000_000, "141.2 GB")]
)
def test_bytes_are_told_as_a_person_reads_them(count: int, text: str) -> None:
    assert size_text(count) == text
