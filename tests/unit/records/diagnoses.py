"""Documents to diagnose: recorded results, and composed ones, with a healthy surrounding."""

from __future__ import annotations

from functools import cache
from typing import Any

import yaml

from tests.unit.records import runs

_STEMS = {path.stem for path in runs.RECORDED.glob("*.json")}


@cache
def _composed() -> dict[str, Any]:
    return dict(yaml.safe_load((runs.RECORDED / "composed.yaml").read_text(encoding="utf-8")))


@cache
def innocent() -> dict[str, Any]:
    """Results that miss a fault by one condition, by name."""
    return dict(yaml.safe_load((runs.RECORDED / "innocent.yaml").read_text(encoding="utf-8")))


NAMES = sorted((_STEMS | set(_composed())) - {"healthy"})
"""Every fault; each is named after the diagnosis that must fire on it, and alone."""


def document(name: str) -> dict[str, Any]:
    """A fault, or "healthy", with everything that a diagnosis looks at."""
    recorded = name if name in _STEMS else "healthy"
    found: dict[str, Any] = {
        "smoke": runs.smoke(recorded) | {"gpus": [{"clocks_event_reasons": 0}] * 8},
        "state": {"gpus": [{"clocks_event_reasons": 1}] * 8},
        "verdict": {
            "findings": [
                {"check": f"placement.{what}", "status": "pass", "subject": "node",
                 "summary": f"every process {where} its GPUs"}
                for what, where in (("cpus", "is on the CPUs of"), ("memory", "is at"))
            ]
        },
        "record": {"by_tp": [{"tp": 1, "tpot_ms": 15.8}, {"tp": 2, "tpot_ms": 10.1}]},
    }  # fmt: skip
    found["smoke"]["server"] = {"gateway_run_delay_share": 0.001} | found["smoke"]["server"]
    other = _composed().get(name) or innocent().get(name) or {"set": {}}
    for path, value in other["set"].items():
        put(found, path, value)
    return found


def put(found: dict[str, Any], path: str, value: object) -> None:
    """Set what stands at a dotted path."""
    *above, last = path.split(".")
    for key in above:
        found = found[key]
    found[last] = value
