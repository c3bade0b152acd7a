"""Linux CPU lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b200kit.node.lib import cpulist
from tests.subtests import in_subtests


@in_subtests(
    ("text", "cpus"),
    [("", []), ("0", [0]), ("0-3,8", [0, 1, 2, 3, 8]), ("8,0-1\n", [0, 1, 8]), ("2,2", [2])],
)
def test_list_is_read(text: str, cpus: list[int]) -> None:
    assert cpulist.parse(text) == cpus


@in_subtests("text", ["a", "3-1", "1-", "-1", "0-99999999", "1;2"])
def test_malformed_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no"):
        cpulist.parse(text)


@given(st.sets(st.integers(0, 300)))
def test_what_is_written_reads_back(cpus: set[int]) -> None:
    assert cpulist.parse(cpulist.format(cpus)) == sorted(cpus)


def test_cpus_of_several_lists_are_found() -> None:
    assert cpulist.repeated(["0-3", "3-4", "6", "6-7"]) == "3,6"
    assert cpulist.repeated(["0-3", "4", ""]) == ""
