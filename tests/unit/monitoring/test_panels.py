"""Every dashboard's query has data on a real Prometheus."""

from __future__ import annotations

import pytest

from b200kit.monitoring import dashboards, files
from tests.prometheus import until
from tests.unit.monitoring.monitored import NODE, Monitored


@pytest.mark.process
def test_every_panel_of_every_dashboard_has_data(node: Monitored) -> None:
    until(node.is_well)
    asked = [expr for board in files.boards().values() for expr in dashboards.queries(board)]
    for expr in (expr.replace("$node", NODE) for expr in asked):

        def has_data(expr: str = expr) -> bool:
            # A rate needs requests between two scrapes of the gateway, whenever its first was.
            node.ask("/v1/models", 1)
            return bool(node.by.query(expr))

        until(has_data, said=lambda expr=expr: expr)  # type: ignore[misc]
