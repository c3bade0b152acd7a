"""Grafana's dashboards as JSON, made from dashboards.yaml. Pure.

Schema version 39 (Grafana 11; grafana.com/docs, dashboard JSON model, quoted); the tests hold every
key and value to the types that Grafana Labs publishes for 11.6. Where the data is from is a
variable, so that a dashboard can be imported anywhere. They were never rendered: no Grafana was at
hand. That every query returns data was tried with a Prometheus.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_COLUMNS = 24
_HEIGHT = {"stat": 4, "timeseries": 8, "table": 8}
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def dashboard(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """One dashboard; *name* is the end of its uid."""
    return {
        "uid": f"b200kit-{name}",
        "title": given["title"],
        "description": given["about"],
        "tags": ["b200kit"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "utc",
        "templating": {"list": list(_variables(given.get("variable")))},
        "panels": list(_panels(given["panels"])),
    }


def _variables(name: str | None) -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    if name:
        query = f"label_values(b200_build_info, {name})"
        yield {
            "name": name,
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": query, "refId": name},
            "refresh": 2,
            "sort": 1,
        }


def _panels(given: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Panels from left to right, in rows as high as their highest."""
    x = y = height = 0
    for number, panel in enumerate(given, 1):
        if x + panel["width"] > _COLUMNS:
            x, y, height = 0, y + height, 0
        own = _HEIGHT[panel["kind"]]
        yield _panel(number, panel, {"x": x, "y": y, "w": panel["width"], "h": own})
        x, height = x + panel["width"], max(height, own)


def _panel(number: int, given: Mapping[str, Any], place: Mapping[str, int]) -> dict[str, Any]:
    queries = given["queries"].items()
    return {
        "id": number,
        "type": given["kind"],
        "title": given["title"],
        "gridPos": dict(place),
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": given["unit"]}, "overrides": []},
        "options": {},
        "targets": [
            _target(chr(ord("A") + n), legend, expr, given["kind"])
            for n, (legend, expr) in enumerate(queries)
        ],
    }


def _target(ref: str, legend: str, expr: str, kind: str) -> dict[str, Any]:
    once = kind != "timeseries"
    form = "table" if kind == "table" else "time_series"
    return {
        "refId": ref,
        "datasource": _SOURCE,
        "expr": expr,
        "legendFormat": legend,
        "format": form,
        "instant": once,
        "range": not once,
    }


def queries(board: Mapping[str, Any]) -> Iterator[str]:
    """Every query of a dashboard."""
    for panel in board["panels"]:
        yield from (target["expr"] for target in panel["targets"])
