"""One test over many cases: each is a subtest, named in a failure, and all of them are one item.

For tables of cases that need no fixture of their own. A case that writes files or patches
something keeps `pytest.mark.parametrize`, which makes a new item, with new fixtures, for each.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, product
from typing import Any

import pytest

from tests.messages import MESSAGES
from tests.sample import sample

Test = Callable[..., None]
Values = Iterable[Any] | Callable[[], Iterable[Any]]
Ids = Callable[[Any], str] | Sequence[str] | None
Axis = tuple[str, ...]
Cases = list[tuple[str, dict[str, Any]]]


def in_subtests(
    names: str | Sequence[str], values: Values, ids: Ids = None, *, one_in: int = 1
) -> Callable[[Test], Test]:
    """A decorator as `pytest.mark.parametrize`, which runs all cases within one test.

    Stacked, it runs every combination. A function in place of the values is called when the test
    runs, so that collecting costs nothing. Of a long table *one_in* so many cases run, other ones
    at each commit, and all with --all-cases (tests/sample.py).
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    single = isinstance(names, str) and len(keys) == 1

    def cases() -> Cases:
        rows = [((value,) if single else tuple(value)) for value in _listed(values)]
        assert rows, "a test over no case passes whatever it asserts"
        return [
            (_label(number, row, ids), dict(zip(keys, row, strict=True)))
            for number, row in sample(enumerate(rows), one_in)
        ]

    def decorate(test: Test) -> Test:
        inner: Mapping[Axis, Callable[[], Cases]] = vars(test).get("axes", {})
        return _loop(vars(test).get("body", test), {**inner, tuple(keys): cases})

    return decorate


def _listed(values: Values) -> Iterable[Any]:
    return values if isinstance(values, Iterable) else values()


def _label(number: int, row: tuple[Any, ...], ids: Ids) -> str:
    """What a case is called in a failure."""
    if callable(ids):
        return "-".join(map(ids, row))
    return ids[number] if ids else ", ".join(map(_short, row))


def _short(value: Any) -> str:
    """A value as it is written, within reason."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _loop(body: Test, axes: Mapping[Axis, Callable[[], Cases]]) -> Test:
    """The loop under the name of its test, asking for the fixtures that are no part of a case."""

    def run(subtests: pytest.Subtests, **fixtures: Any) -> None:
        for combination in product(*(cases() for cases in axes.values())):
            row = {key: value for _, part in combination for key, value in part.items()}
            label = ", ".join(label for label, _ in combination)
            MESSAGES.case = f"[{label}]"
            with subtests.test(label):
                body(**row, **fixtures)

    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(run, name, getattr(body, name))
    vars(run).update(body=body, axes=axes, pytestmark=vars(body).get("pytestmark", []))
    vars(run)["__signature__"] = _asking(body, set(chain.from_iterable(axes)))
    return run


def _asking(body: Test, taken: set[str]) -> inspect.Signature:
    """The signature of a test with `subtests`, and without what its cases bring."""
    asked = inspect.signature(body).parameters
    assert taken <= set(asked), f"{body.__name__} takes no {taken - set(asked)}"
    own = inspect.Parameter("subtests", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return inspect.Signature([own, *(p for name, p in asked.items() if name not in taken)])
