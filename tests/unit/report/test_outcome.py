"""The exit code of a run, by how it ended for each of its hosts."""

from __future__ import annotations

import pytest

from b200kit.report.outcome import exit_code


@pytest.mark.parametrize(
    ("entry", "outcomes", "code"),
    [
        ("check.py", ["fit", "fit"], 0),
        ("check.py", ["fit", "unfit"], 1),
        ("check.py", ["unmeasured"], 2),
        ("check.py", ["unmeasured", "fit"], 2),
        ("check.py", ["unmeasured", "unfit", "fit"], 1),
        ("check.py", ["unmeasured", "unreachable"], 1),
        ("check.py", ["bare", "fit", "bare"], 3),
        ("check.py", ["bare", "unmeasured"], 2),
        ("check.py", ["bare", "unfit"], 1),
        ("check.py", [], 1),
        ("b200.py", ["live"], 0),
        ("b200.py", ["unmeasured"], 1),
        ("b200.py", ["live", "red"], 1),
        ("b200.py", ["unreachable", "unreachable"], 1),
    ],
)
def test_worst_outcome_decides_and_only_a_check_tells_what_was_not_measured(
    entry: str, outcomes: list[str], code: int
) -> None:
    hosts = {f"n{number}": {"outcome": word} for number, word in enumerate(outcomes)}
    assert exit_code({"entry": entry, "hosts": hosts}) == code
