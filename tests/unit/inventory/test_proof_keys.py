"""Inventory section proof: hours in which a node cannot measure itself are refused."""

from __future__ import annotations

from typing import Any

from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from tests.subtests import in_subtests
from tests.unit.specs import CATALOGUE, data

WINDOW = ["proof.renew.window"]


@in_subtests(
    ("renew", "keys"),
    [
        ({}, []),
        ({"by_node": "off"}, []),
        ({"by_node": "never"}, ["proof.renew.by_node"]),
        ({"window": "22:00-04:30"}, []),
        ({"window": "00:00-24:00"}, []),
        ({"window": "night"}, WINDOW),
        ({"window": "1:00-5:00"}, WINDOW),
        ({"window": "01:00-25:00"}, WINDOW),
        ({"window": "03:00-03:00"}, WINDOW),
        ({"window": "03:00-03:10", "idle_s": 600}, WINDOW),
        ({"when_left": 0}, ["proof.renew.when_left"]),
        ({"idle": 60}, ["proof.renew.idle"]),
    ],
)
def test_when_a_node_may_measure_itself(renew: dict[str, Any], keys: list[str]) -> None:
    found = parse(data(proof={"renew": renew}), CATALOGUE)
    refused = [] if isinstance(found, NodeSpec) else [problem.key for problem in found]
    assert refused == keys
