"""The YAML that a CDI specification is written in, and the refusal of all other."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from b200kit.node.lib import yaml_subset
from tests.subtests import in_subtests

TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30)
WORDS = st.from_regex(r"[a-zA-Z/][a-zA-Z0-9/._=:-]{0,30}[a-zA-Z0-9]", fullmatch=True)


def documents(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Lists and mappings of some texts, and of each other."""
    return st.recursive(
        texts,
        lambda inner: (
            st.lists(inner, min_size=1, max_size=4)
            | st.dictionaries(texts.filter(bool), inner, min_size=1, max_size=4)
        ),
        max_leaves=20,
    ).filter(lambda document: not isinstance(document, str))


def both(document: Any) -> tuple[str, Any]:
    """The document as a real library writes it, and what that library reads from it."""
    text = yaml.safe_dump(document, default_flow_style=False, width=10**6)
    return text, yaml.load(text, yaml.BaseLoader)


@given(documents(WORDS))
def test_paths_and_words_are_read_as_a_real_library_reads_them(document: Any) -> None:
    text, expected = both(document)
    assert yaml_subset.load(text) == expected


@given(documents(TEXTS))
def test_whatever_else_is_read_alike_or_refused(document: Any) -> None:
    text, expected = both(document)
    with suppress(ValueError):
        assert yaml_subset.load(text) == expected


SPEC = """\
---
cdiVersion: 0.5.0   # a comment
containerEdits:
  env:
  - NVIDIA_VISIBLE_DEVICES=void
  hooks:
  - args:
    - --link
    - ../libnvidia-allocator.so.1::/usr/lib/gbm/nvidia-drm_gbm.so
    hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
  mounts: []
devices:
  - name: "0"
    containerEdits:
      deviceNodes:
        - path: /dev/nvidia0
  -
    name: 'it''s'
kind: nvidia.com/gpu
"""


def test_a_specification_is_read_in_every_shape_that_is_seen() -> None:
    assert yaml_subset.load(SPEC) == yaml.load(SPEC, yaml.BaseLoader)


@in_subtests(
    "text",
    [
        "a: &x 1",
        "a: *x",
        "a: [1, 2]",
        "a: {b: 1}",
        "a: |\n  text",
        "a: !!str 1",
        "a:\n\tb: 1",
        "a: 1\na: 2",
        "a: b: c",
        "a: folded\n  text",
        "- a\nb: 1",
        "a:\n    b: 1\n  c: 2",
        'a: "open',
        "a: 'it's'",
        "--- one\n--- two",
        "- " * 50_000 + "deep",
    ],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        yaml_subset.load(text)


def test_an_empty_file_is_an_empty_mapping() -> None:
    assert yaml_subset.load("---\n# nothing\n") == {}
