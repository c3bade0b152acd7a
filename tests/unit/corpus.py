"""The corpus: what nodes report, and how it must be judged, as data in tests/corpus/*.yaml.

A case says what differs from a recorded healthy state and what must be found. The keys are
described in tests/corpus/README.md; what is not understood is an error, because
a fault that is not applied proves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from b200kit.node.checks.judge import judge, registered
from b200kit.node.state.verdict import Action, Status, Verdict
from b200kit.records.examples import NoExample
from tests.unit.case import Case, Json, Wanted

FILES = sorted((Path(__file__).parents[1] / "corpus").glob("*.yaml"))
KEYS = {
    *("name", "source", "covers", "hardware", "base", "set", "drop", "expect", "fit", "findings"),
    *("numa", "alone", "valid", "settings"),
}
FITS = ("fit", "unfit", "unmeasured")
DOCUMENT_CHECKS = {"document.state", "document.expectation"}


class CorpusError(ValueError):
    """A case that cannot be used; the text says which and why."""


@cache
def verdict_of(name: str) -> Verdict:
    """The verdict of a case by all checks, judged once for all tests."""
    case = named(name)
    return judge(case.expectation(), case.state())


def named(name: str) -> Case:
    """The case of a name."""
    return _by_name()[name]


@cache
def _by_name() -> dict[str, Case]:
    return {case.name: case for case in cases()}


@cache
def read_alone(name: str) -> Case:
    """The case of a name, where no other is needed: only files that have the words are read."""
    for path in FILES:
        if name in path.read_text(encoding="utf-8"):
            for _, entry in _entries([path], Corpus()):
                if entry["name"] == name:
                    return parse(entry, path.stem)
    raise CorpusError(f"no case is called {name!r}")


def cases(*fits: str) -> list[Case]:
    """Every case of tests/corpus, or those whose node is so."""
    return [case for case in corpus().cases if not fits or case.fit in fits]


@dataclass
class Corpus:
    """All cases that can be used, and what is wrong with those that cannot."""

    cases: list[Case] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@cache
def corpus() -> Corpus:
    """Every case of tests/corpus, not applied yet: one test (test_corpus.py) tries them all."""
    return read(FILES, applied=False)


def read(files: Iterable[Path], *, applied: bool = True) -> Corpus:
    """The cases of files, tried on their recorded states. A name may stand once in all of them."""
    result = Corpus()
    names: set[str] = set()
    for path, entry in _entries(files, result):
        try:
            case = parse(entry, path.stem)
            if case.name in names:
                raise CorpusError("the name stands twice")
            if applied:
                case.state(), case.expectation()
            names.add(case.name)
        except (ValueError, OSError, NoExample) as error:
            name = entry.get("name") if isinstance(entry, dict) else entry
            result.problems.append(f"{path.name}: {name!r}: {error}")
        else:
            result.cases.append(case)
    return result


def _entries(files: Iterable[Path], result: Corpus) -> Iterator[tuple[Path, Any]]:
    """Every entry of every file that can be read."""
    for path in files:
        try:
            document = yaml.load(path.read_text(encoding="utf-8"), _StrictLoader)
        except (yaml.YAMLError, CorpusError) as error:
            result.problems.append(f"{path.name}: {error}")
            continue
        if not isinstance(document, list):
            result.problems.append(f"{path.name}: must be a list of cases")
            continue
        yield from ((path, entry) for entry in document)


class _StrictLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML that refuses a key written twice, of which one would be lost."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """A mapping with every key once; "<<" takes another mapping's keys, as YAML has it."""
        own = [key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        keys = [self.construct_object(key, deep=True) for key in own]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise CorpusError(f"{twice[0]!r} is written twice, line {node.start_mark.line + 1}")
        return super().construct_mapping(node, deep)


def parse(entry: Any, file: str) -> Case:
    """A case, strictly."""
    if not isinstance(entry, dict):
        raise CorpusError("must be a mapping")
    _known(entry, KEYS)
    _plain(entry)
    findings = tuple(map(_wanted, entry.get("findings", [])))
    alone = entry.get("alone", entry.get("fit") == "unfit" and len(findings) == 1)
    lists: Json = {key: tuple(map(str, entry.get(key, []))) for key in ("covers", "drop")}
    rest = {key: entry[key] for key in entry if key not in {"findings", "alone", *lists}}
    for key in ("name", "source", "fit"):
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise CorpusError(f"{key} must be a text that is not empty")
    case = Case(**rest, **lists, file=file, findings=findings, alone=alone)
    for problem in _odd(case):
        raise CorpusError(problem)
    return case


def _wanted(entry: Any) -> Wanted:
    """A finding as a case asks for it."""
    if not isinstance(entry, dict):
        raise CorpusError("a finding must be a mapping")
    _known(entry, set(Wanted.__dataclass_fields__))
    wrong = [key for key, value in entry.items() if not isinstance(value, str) or not value]
    if wrong:
        raise CorpusError(f"{wrong[0]} of a finding must be a text (write it in quotes)")
    missing = [key for key in ("check", "action") if key not in entry]
    if missing:
        raise CorpusError(f"a finding needs {missing[0]}")
    return Wanted(**entry)


def _odd(case: Case) -> Iterator[str]:
    """What a well-formed case asks for that cannot be."""
    if case.fit not in FITS:
        yield f"fit must be one of {', '.join(FITS)}"
    if case.fit != "fit" and not case.findings:
        yield "a case that is not fit needs findings"
    if case.alone and (case.fit == "fit" or len({w.check for w in case.findings}) != 1):
        yield "alone is for a node that is not fit by one check"
    for wanted in case.findings:
        if wanted.check not in {*registered(), *DOCUMENT_CHECKS}:
            yield f"no check is called {wanted.check!r}"
        if wanted.action not in {action.word for action in Action}:
            yield f"no action is called {wanted.action!r}"
        if wanted.status not in {"", *(status.value for status in Status)}:
            yield f"no status is called {wanted.status!r}"


def _known(entry: Json, keys: set[str]) -> None:
    """Refuse keys that mean nothing."""
    unknown = [key for key in entry if key not in keys]
    if unknown:
        raise CorpusError(f"unknown key {unknown[0]!r}; known: {', '.join(sorted(keys))}")


def _plain(entry: Json) -> None:
    """Refuse what no JSON document holds, such as a date without quotes."""
    try:
        json.dumps(entry, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CorpusError(f"{error}: write dates in quotes") from error
