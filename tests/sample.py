"""Long tables of cases: a part of them in each run, another part at each commit, all on request.

`make test` takes one case in so many; which ones follows from the number of the commit, so as many
commits in a row take each case once. `--all-cases` (`make test-long`) takes all of them.
"""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T")
MARKER = "one_in"
VARIABLE = "B200_SAMPLE"
"""Overrides the number of the commit, to see again what another commit saw."""
_ROOT = Path(__file__).parents[1]
_asked = {"all": False}


def sample(cases: Iterable[T], one_in: int) -> list[T]:
    """Every *one_in*-th of the cases, in their order and at least one; all with --all-cases."""
    listed = list(cases)
    if _asked["all"] or one_in <= 1 or not listed:
        return listed
    first = commit_number() % one_in
    return listed[first::one_in] or [listed[first % len(listed)]]


@cache
def commit_number() -> int:
    """How many commits the checkout has; 0 where there is no repository."""
    if given := os.environ.get(VARIABLE):
        return int(given)
    command = ["git", "rev-list", "--count", "HEAD"]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else 0


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that takes all."""
    text = "all cases of long tables, and the usual number of examples of each property"
    parser.addoption("--all-cases", action="store_true", help=text)


# The same examples in every run: what is judged is the change, not the luck of a draw. New ones
# are looked for with `pytest --hypothesis-profile=explore tests/unit`.
settings.register_profile("quick", max_examples=15, derandomize=True, deadline=None)
settings.register_profile("same", max_examples=60, derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=1500, deadline=None)


def pytest_configure(config: pytest.Config) -> None:
    """How much this run takes."""
    # What is not run is not on file afterwards.
    _asked["all"] = config.getoption("all_cases") or config.getoption("update_messages")
    if not config.getoption("--hypothesis-profile", None):
        settings.load_profile("same" if _asked["all"] else "quick")


def pytest_report_header() -> str:
    """Which cases, so that the same can be run again."""
    if _asked["all"]:
        return "cases: all"
    return f"cases: the sample of commit {commit_number()} ({VARIABLE}={commit_number()})"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test marked `one_in(n)` that many of its parameters run."""
    tests: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if marker := item.get_closest_marker(MARKER):
            tests[f"{item.nodeid.partition('[')[0]} {marker.args[0]}"].append(item)
    kept = [
        item for name, each in tests.items() for item in sample(each, int(name.rpartition(" ")[2]))
    ]
    left = {item for each in tests.values() for item in each} - set(kept)
    if left:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
