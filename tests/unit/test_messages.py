"""Messages are compared with those on file, and written only on request."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.messages import (
    MESSAGES,
    TESTS,
    Messages,
    Texts,
    assert_message,
    raises_message,
    says_the_same,
)

MODULE = "unit/test_it.py"
ON_FILE: Texts = {
    MODULE: {"test_one": ["first", "second"], "test_two[a]": ["of a"], "test_gone": ["old"]},
    "unit/test_gone.py": {"test_one": ["old"]},
}


@pytest.fixture
def messages(tmp_path: Path) -> Messages:
    """A file of messages beside a module of two tests, of which the first runs."""
    (tmp_path / MODULE).parent.mkdir()
    (tmp_path / MODULE).write_text("def test_one():\n    pass\n\ndef test_two(name):\n    pass\n")
    file = tmp_path / "messages.yaml"
    file.write_text(yaml.safe_dump(ON_FILE))
    made = Messages(file, tmp_path)
    made.begin(MODULE, "test_one", "/tmp/x")
    return made


def test_each_call_is_compared_with_its_own_entry(messages: Messages) -> None:
    messages.compare("first")
    messages.compare("second")
    messages.begin(MODULE, "test_two")
    messages.case = "[a]"
    messages.compare("of a")


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("n1: the driver is not loaded", "n1: no driver is loaded"),
        ("GPU 3 has 4 of 18 links; reboot", "of GPU 3, 4 links out of 18 are up"),
        ('model: unknown "llama-9"', 'model: the catalogue has no "llama-9"'),
        ("the token is nan", "the value of the token is nan"),
    ],
)
def test_the_same_in_other_words_is_the_same(text: str, known: str) -> None:
    assert says_the_same(text, known)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("n2: the driver is not loaded", "n1: the driver is not loaded"),
        ("GPU 3 has 4 of 18 links", "GPU 4 has 3 of 18 links"),
        ('model: unknown "llama-8"', 'model: unknown "llama-9"'),
        ('goal: unknown "a"', 'model: unknown "a"'),
        ("gpu.ecc is bad", "gpu.xid is bad"),
        ("see docs/measure.md", "see docs/lab.md"),
        ("pyinfra --limit n1", "pyinfra --dry n1"),
        ("the mirror is away", "no usage"),
        ("", "the mirror is away"),
        ("no usage", ""),
        ("n1 is away", "no usage"),
        ("unit FAIL", "unit PASS"),
        ("nvidia-fabricmanager-dev is gone", "the other is gone"),
    ],
)
def test_what_names_something_else_is_not(text: str, known: str) -> None:
    assert not says_the_same(text, known)


@pytest.mark.parametrize("text", ["second", "firs", ""])
def test_other_text_fails_and_names_the_command(messages: Messages, text: str) -> None:
    with pytest.raises(AssertionError, match=f"--update-messages tests/{MODULE}"):
        messages.compare(text)


def test_text_without_an_entry_fails_and_names_the_command(messages: Messages) -> None:
    messages.begin(MODULE, "test_two")
    with pytest.raises(AssertionError, match=f"--update-messages tests/{MODULE}"):
        messages.compare("of a")


def test_update_replaces_what_ran_and_drops_what_is_no_more(messages: Messages) -> None:
    messages.update = True
    messages.compare("in /tmp/x: new")
    messages.write()
    entries = {"test_one": ["in TMP: new"], "test_two[a]": ["of a"]}
    assert yaml.safe_load(messages.file.read_text()) == {MODULE: entries}


def test_update_drops_the_cases_that_a_test_no_longer_has(messages: Messages) -> None:
    messages.update = True
    messages.begin(MODULE, "test_two")
    messages.case = "[b]"
    messages.compare("two\nlines\n")
    messages.write()
    written = yaml.safe_load(messages.file.read_text())
    assert written == {MODULE: {"test_two[b]": ["two\nlines\n"]}}


def test_values_that_differ_between_runs_are_named_in_the_text() -> None:
    assert_message("process 17 since 09:40", PID=17, TIME=re.compile(r"\d\d:\d\d"))


def test_what_is_raised_is_compared() -> None:
    with raises_message(ValueError, NUMBER=7):
        raise ValueError("7 is no colour")


def test_every_entry_on_file_is_of_a_test_there_is() -> None:
    for module, tests in MESSAGES.known.items():
        source = (TESTS / module).read_text(encoding="utf-8")
        assert [t for t in tests if f"def {t.partition('[')[0]}(" not in source] == [], module
