"""What an inventory may say of tuning (docs/tune.md): layouts, loads and rates to try. Pure."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from b200kit.inventory.keys.types import Keys, Text, Unique


class Tune(Keys):
    """What deploy/tune.py tries. Objective and share are those of the smoke test."""

    layouts: Unique[Text] = ()
    """layouts by name: "configured", "plan-TP2" and so on, and those of b200kit/tuning/matrix.yaml
    ("A"); every one that can be when empty"""
    workloads: Unique[Text] = ("chat",)
    """loads of b200kit/tuning/matrix.yaml, or "smoke": that of the smoke test; the first one
    decides"""
    requests: int = Field(120, ge=5, le=5000)
    """requests a rate, at least"""
    seconds: float = Field(20.0, ge=0, le=600)
    """shortest time at one rate"""
    initial_rate: float = Field(4.0, ge=0.05, le=1000)
    """requests a second to begin with; latency is compared there"""
    max_rate: float = Field(512.0, ge=0.05, le=10_000)
    """the highest rate to try"""
    resolution: float = Field(0.1, ge=0.01, le=1)
    """how near the last good and the first bad rate must come"""
    cells: int = Field(12, ge=1, le=50)
    """rates of one sweep, at most"""
    prompts: Literal["words", "smoke"] = "words"
    """random words, as `vllm bench serve` sends them, or "smoke": what the smoke test sends"""
