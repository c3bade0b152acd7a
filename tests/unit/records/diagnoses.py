"""Documents to diagnose: recorded results, and composed ones, with a healthy surrounding."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.lib.documents import structure, unstructure
from tests.unit import smoke_results

_STEMS = {path.stem for path in smoke_results.RECORDED.glob("*.json")}


def _read(name: str) -> dict[str, Any]:
    text = (smoke_results.RECORDED / f"{name}.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


@cache
def _composed() -> dict[str, Any]:
    return dict(
        yaml.safe_load((smoke_results.RECORDED / "composed.yaml").read_text(encoding="utf-8"))
    )


@cache
def innocent() -> dict[str, Any]:
    """Results that miss a fault by one condition, by name."""
    return dict(
        yaml.safe_load((smoke_results.RECORDED / "innocent.yaml").read_text(encoding="utf-8"))
    )


NAMES = sorted((_STEMS | set(_composed())) - {"healthy"})
"""Every fault; each is named after the diagnosis that must fire on it, and alone."""


def document(name: str, changes: Mapping[str, object] | None = None) -> dict[str, Any]:
    """A fault, or "healthy", with everything that a diagnosis looks at."""
    recorded = name if name in _STEMS else "healthy"
    found: dict[str, Any] = {
        "smoke": smoke_results.document({"gpus": [gpu(0)] * 8}, recorded),
        "state": {"gpus": [{"clocks_event_reasons": 1}] * 8},
        "verdict": {
            "findings": [
                {"check": f"placement.{what}", "status": "pass", "subject": "node",
                 "summary": f"every process {where} its GPUs"}
                for what, where in (("cpus", "is on the CPUs of"), ("memory", "is at"))
            ]
        },
        "record": {
            "by_tp": [{"tp": 1, "tpot_ms": 15.8, "runs": 6}, {"tp": 2, "tpot_ms": 10.1, "runs": 10}]
        },
    }  # fmt: skip
    if found["smoke"]["server"].get("gateway_run_delay_share") is None:
        found["smoke"]["server"]["gateway_run_delay_share"] = 0.001
    other = _composed().get(name) or innocent().get(name) or {"set": {}}
    for path, value in {**other["set"], **(changes or {})}.items():
        smoke_results.put(found, path, value)
    return {**found, "smoke": unstructure(structure(SmokeResult, found["smoke"]))}


def gpu(reasons: object) -> dict[str, object]:
    """A GPU during the load that was slowed for these reasons."""
    unread = {"unmeasured": "not looked at"}
    numbers = dict.fromkeys(("sm_clock_mhz", "power_usage_mw", "temperature_c"), unread)
    return {"index": 0, "samples": 9, **numbers, "clocks_event_reasons": reasons}
