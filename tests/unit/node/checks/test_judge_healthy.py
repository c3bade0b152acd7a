"""No false alarm: recorded healthy nodes are fit. Single harmless readings are in tests/corpus."""

from __future__ import annotations

import pytest

from b200kit.node.checks.judge import judge
from tests.unit import states


@pytest.mark.parametrize("name", ["healthy-hgx-b200", "healthy-snc2-four-nodes"])
def test_recorded_healthy_node_is_fit(name: str) -> None:
    verdict = judge(states.expectation(), states.recorded(name))
    assert verdict.fit == "fit", [f.summary for f in verdict.blocking]
