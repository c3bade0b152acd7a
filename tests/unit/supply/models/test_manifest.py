"""The one writer of manifests: canonical bytes, which nodes read, and where a model came from."""

from __future__ import annotations

import hashlib

import pytest

from b200kit.node.weights.manifest import ManifestFile, parse
from b200kit.supply.models import manifest
from b200kit.supply.models.manifest import Origin
from tests.messages import raises_message

A, B = ManifestFile("a.json", 1, "a" * 64), ManifestFile("sub/b.json", 2, "b" * 64)
OF = Origin("org/Model", "c" * 40)


def test_bytes_do_not_depend_on_the_order_and_nodes_read_them() -> None:
    raw = manifest.written([B, A], OF)
    assert raw == manifest.written([A, B], OF)
    assert parse(raw, manifest.revision(raw)) == (A, B)
    assert manifest.revision(raw) == hashlib.sha256(raw).hexdigest()


def test_origin_is_in_the_revision_and_is_read_again() -> None:
    raw = manifest.written([A], OF)
    assert manifest.origin_of(raw) == OF
    assert OF.below == f"org/Model/resolve/{'c' * 40}"
    assert manifest.origin_of(manifest.written([A])) is None
    assert manifest.revision(raw) != manifest.revision(manifest.written([A]))


@pytest.mark.parametrize("said", [b"", b"[]", b'{"origin": {"repository": "../x", "commit": "c"}}'])
def test_origin_that_is_none_is_none(said: bytes) -> None:
    assert manifest.origin_of(said) is None


@pytest.mark.parametrize("word", ["../x@" + "c" * 40, "org/Model@main", "org/Model@" + "C" * 40])
def test_word_that_names_no_commit_is_refused(word: str) -> None:
    with raises_message(ValueError):
        manifest.origin(word)
