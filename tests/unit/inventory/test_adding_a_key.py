"""What CONTRIBUTING promises: a key is added in one place, and everything else follows from it."""

from __future__ import annotations

import pytest
from pydantic import Field

from b200kit.cli.reference_pages import inventory_markdown
from b200kit.inventory.keys.problem import Problem, parse_keys
from b200kit.inventory.keys.types import Keys, Listed
from b200kit.inventory.spec import NodeSpec
from tests.messages import assert_message
from tests.unit.specs import data


class Place(Keys):
    """Where the node stands."""

    unit: int = Field(ge=1, le=52)
    """height unit, counted from below"""


class Extended(NodeSpec):
    """A node with two more keys."""

    place: Place | None = None
    """where the node stands; None: unknown"""
    labels: Listed[str] = ()
    """labels of the node"""


def test_added_key_is_parsed_and_has_its_default() -> None:
    spec = parse_keys(Extended, data(place={"unit": 7}))
    assert isinstance(spec, Extended)
    assert (spec.place, spec.labels) == (Place(unit=7), ())


def refused(**changes: object) -> list[Problem]:
    """What is wrong with data."""
    problems = parse_keys(Extended, data(**changes))
    assert isinstance(problems, list)
    return problems


@pytest.mark.parametrize(
    ("place", "key"),
    [
        ({"unit": "7"}, "place.unit"),
        ({"unit": True}, "place.unit"),
        ({}, "place.unit"),
        (7, "place"),
    ],
)
def test_wrong_value_is_one_line_under_its_key(place: object, key: str) -> None:
    [problem] = refused(place=place)
    assert problem.key == key
    assert_message(problem.message)


def test_misspelt_key_at_any_depth_gets_a_hint() -> None:
    problems = refused(place={"unit": 1, "units": 2}, rak=None)
    assert_message(*[f"{problem.key}: {problem.message}" for problem in problems])


def test_added_key_is_on_the_reference_page() -> None:
    page = inventory_markdown(Extended)
    row = "| `place` | None or a mapping ([Place](#place)) | `None` | where the node stands; None: "
    assert row in page
    assert "## Place\n\nWhere the node stands." in page
    assert "| `unit` | a whole number from 1 to 52 | **required** | height unit, " in page
