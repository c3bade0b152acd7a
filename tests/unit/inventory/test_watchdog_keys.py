"""Rules of the watchdog that would find nothing are refused."""

from __future__ import annotations

from typing import Any

from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from tests.subtests import in_subtests
from tests.unit.specs import CATALOGUE, data


@in_subtests(
    ("rules", "keys"),
    [
        ({"confirm": 4, "health_checks": 3}, ["watchdog.confirm"]),
        ({"takes_out": ["nvlnk", "ecc"]}, ["watchdog.takes_out"]),
        ({"takes_out": ["nvlink.link"]}, ["watchdog.takes_out"]),
        ({"takes_out": ["nvlink.links", "ecc"]}, []),
        ({"takes_out": []}, []),
        ({"confirm": 3, "health_checks": 3}, []),
    ],
)
def test_rules_that_would_find_nothing(rules: dict[str, Any], keys: list[str]) -> None:
    found = parse(data(watchdog=rules), CATALOGUE)
    refused = [] if isinstance(found, NodeSpec) else [problem.key for problem in found]
    assert refused == keys
