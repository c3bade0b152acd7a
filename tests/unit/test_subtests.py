"""A test over many cases: every case runs, and a failure is named by its case."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.subtests import in_subtests

ROOT = Path(__file__).resolve().parents[2]
MODULE = """
import pytest
from tests.subtests import in_subtests
seen = []

@pytest.fixture
def ten():
    return 10

@pytest.mark.parametrize("factor", [1])
@in_subtests("one", [1, 2, 3])
@in_subtests(("name", "other"), lambda: [("a", 4), ("b", 5)], ids=["first", "second"])
def test_cases(one, name, other, ten, factor):
    seen.append((one, name))
    assert (one, name) != (2, "b"), ten + other

def test_all_ran():
    assert len(seen) == 6
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says of a module in which one case of six fails."""
    path = tmp_path_factory.mktemp("cases") / "test_it.py"
    path.write_text(MODULE)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(path.parent),
    ]
    done = subprocess.run(
        [*command, "-p", "no:xdist", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return str(done.stdout)


def test_failure_is_named_by_its_case_and_the_others_run(ran: str) -> None:
    assert "[second, 2]" in ran
    assert "[first, " not in ran.partition("short test summary")[2]
    assert "1 passed" in ran


def test_no_case_is_no_test() -> None:
    @in_subtests("case", [])
    def body(case: int) -> None:
        """Never called."""

    with pytest.raises(AssertionError, match="over no case"):
        body(subtests=None)


def test_case_that_the_test_does_not_take_is_refused() -> None:
    with pytest.raises(AssertionError, match="takes no"):

        @in_subtests("other", [1])
        def body(case: int) -> None:
            """Never called."""
