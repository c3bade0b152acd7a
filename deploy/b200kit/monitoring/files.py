"""Everything for a site's Prometheus, Alertmanager and Grafana, by file name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from b200kit.catalog import shipped
from b200kit.monitoring import dashboards
from b200kit.monitoring.targets import MonitoredNode, targets

_HERE = Path(__file__).resolve().parent
AS_THEY_ARE = {
    "b200-rules.yml": "rules.yml",
    "alertmanager.yml": "alertmanager.yml",
    "prometheus.yml": "prometheus.yml",
}
"""File to the one it is a copy of."""


def rules() -> dict[str, Any]:
    """The rules, as Prometheus reads them."""
    found: dict[str, Any] = shipped.read(_HERE / "rules.yml")
    return found


def boards() -> dict[str, dict[str, Any]]:
    """Every dashboard by name."""
    given = shipped.read(_HERE / "dashboards.yaml")
    return {name: dashboards.dashboard(name, one) for name, one in given.items()}


def files(members: Sequence[MonitoredNode]) -> dict[str, str]:
    """Path below the directory to its text."""
    found = {name: (_HERE / own).read_text(encoding="utf-8") for name, own in AS_THEY_ARE.items()}
    found["b200-targets.json"] = as_json(targets(members))
    return found | {f"dashboards/{name}.json": as_json(one) for name, one in boards().items()}


def as_json(document: object) -> str:
    """As a person reads it, with the line's end that editors want."""
    return json.dumps(document, indent=1) + "\n"
