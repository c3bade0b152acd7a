"""Sentences of the product: what they name is compared with one file, their words are not.

`assert_message(text)` compares the facts of a text with those of the entry of the running test:
hosts, keys, values, units, paths, commands, codes, figures. A text that names nothing has to be
about the same: half of its words. Each call in a test, or in a case of it, has its own entry. The
file is for people who review what users read; `pytest --update-messages` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import pytest
import yaml

TESTS = Path(__file__).parent
LONGEST = 110  # what YAML writes as a plain key; cases alike so far follow one upon the other
PORT = re.compile(r"(?<=127\.0\.0\.1:|localhost:)\d+")
PYTHON = re.compile(r"python[\d.]*")
TOOK = re.compile(r"\d+(\.\d+)? m?s\b")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
Texts = dict[str, dict[str, list[str]]]  # by module and test, in the order of the calls
TOKEN = re.compile(r"""(?<!\w)"[^"\n]*"|(?<!\w)'[^'\n]*'(?!\w)|\S+""")
FACT = re.compile(r"[\d_/=@$<>|*{\[]|\w[.:]\w|^--?\w|[A-Z]{2}|\w-\w+-\w")
KEY = re.compile(r"\w+:$")


def facts(text: str) -> list[str]:
    """What a text names, in order: quoted words, figures, paths, codes, subjects."""
    return [
        token.strip(".,;:()!?\"'")
        for token in TOKEN.findall(text)
        if token[0] in "\"'" or KEY.match(token) or FACT.search(token.strip(".,;:()!?"))
    ]


def says_the_same(text: str, known: str) -> bool:
    """Whether two texts name the same; of texts that name nothing, whether they are alike."""
    if facts(known) or not known:
        return facts(text) == facts(known) and bool(text) == bool(known)
    words = {word.lower() for word in re.findall(r"\w+", known)}
    return not facts(text) and 2 * len(words & {w.lower() for w in text.split()}) >= len(words)


class Messages:
    """The texts on file, those that the tests of this session gave, and which test is running."""

    def __init__(self, file: Path, tests: Path = TESTS) -> None:
        self.file, self.tests = file, tests
        self.update = False
        self.given: Texts = {}
        self.reworded = 0
        self.module = self.test = self.case = self.folder = ""

    @cached_property
    def known(self) -> Texts:
        """The texts on file."""
        return yaml.load(self.file.read_text(encoding="utf-8"), yaml.CSafeLoader) or {}

    def begin(self, module: str, test: str, folder: str = "") -> None:
        """Say which test runs now, and what its temporary folder is."""
        self.module, self.test, self.case, self.folder = module, test, "", folder
        self.given.setdefault(module, {})[test] = []

    def compare(self, text: str) -> None:
        """Assert that a text names what the one on file for this call of this test does."""
        __tracebackhide__ = True
        text = text.replace(self.folder or "TMP", "TMP").replace(f"{TESTS.parent}/", "")
        test = self.test + self.case[: max(0, LONGEST - len(self.test))]
        texts = self.given[self.module].setdefault(test, [])
        texts.append(text)
        if not self.update:
            known = self.known.get(self.module, {}).get(test, [])[len(texts) - 1 :][:1]
            command = f"pytest --update-messages tests/{self.module}"
            assert known, f"not on file: {text!r}; after a look: {command}"
            assert says_the_same(text, known[0]), f"{text!r}, not {known[0]!r}; or {command}"
            self.reworded += text != known[0]

    def write(self) -> None:
        """Replace the entries of the tests that ran; drop those of tests that no longer exist."""
        ran = {(module, _name(test)) for module, tests in self.given.items() for test in tests}
        texts: Texts = {module: dict(tests) for module, tests in self.given.items()}
        for module, tests in self.known.items():
            path = self.tests / module
            source = path.read_text(encoding="utf-8") if path.exists() else ""
            for test, entries in tests.items():
                if (module, _name(test)) not in ran and f"def {_name(test)}(" in source:
                    texts.setdefault(module, {})[test] = entries
        full = {module: {k: v for k, v in tests.items() if v} for module, tests in texts.items()}
        full = {module: tests for module, tests in full.items() if tests}
        self.file.write_text(yaml.dump(full, Dumper=_Block, allow_unicode=True, width=10_000))


class _Block(yaml.SafeDumper):
    """Texts of several lines stand as they are printed."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Block.add_representer(str, _text)
FILE = TESTS / "data" / "messages.yaml"
MESSAGES = Messages(FILE)


def _name(test: str) -> str:
    """A test's function, without the case."""
    return test.partition("[")[0]


def assert_message(*texts: str | None, **names: object) -> None:
    """Assert that the texts, a line each, name what those on file name.

    `PORT=port` writes PORT for its value, or for what a compiled pattern finds.
    """
    __tracebackhide__ = True
    text = "\n".join(map(str, texts))
    for name, value in names.items():
        exact = rf"(?<!\w){re.escape(str(value))}(?!\w)"
        pattern = value if isinstance(value, re.Pattern) else exact
        text = re.sub(pattern, name, text)
    MESSAGES.compare(text)


def lines_with(text: str, word: str) -> list[str]:
    """The lines of a longer text that have a word."""
    return [line for line in text.splitlines() if word in line]


@contextmanager
def raises_message(kind: type[BaseException], **names: object) -> Iterator[None]:
    """Assert that this is raised, with the text that is on file."""
    with pytest.raises(kind) as raised:
        yield
    assert_message(str(raised.value), **names)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that writes the file."""
    parser.addoption("--update-messages", action="store_true", help="write data/messages.yaml")


def pytest_configure(config: pytest.Config) -> None:
    """The file is written by one process."""
    MESSAGES.update = config.getoption("update_messages")
    if MESSAGES.update and config.getoption("numprocesses", None):
        raise pytest.UsageError("--update-messages takes one process: give -n 0")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Each test has its own entries."""
    folder = getattr(item, "funcargs", {}).get("tmp_path", "")
    MESSAGES.begin(item.path.relative_to(TESTS).as_posix(), item.name, str(folder))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was given, if that is asked for; a worker tells how many texts were reworded."""
    if MESSAGES.update:
        MESSAGES.write()
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["reworded"] = MESSAGES.reworded


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Add what a worker of pytest-xdist told."""
    MESSAGES.reworded += getattr(node, "workeroutput", {}).get("reworded", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say that the file is behind: that fails nothing."""
    if MESSAGES.reworded and not MESSAGES.update:
        line = f"{MESSAGES.reworded} texts are worded in another way than in {FILE.name}"
        terminalreporter.write_line(f"{line}: pytest --update-messages -n 0 writes them")
