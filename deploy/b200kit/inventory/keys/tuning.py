"""What an inventory may say of tuning (docs/tune.md): layouts, loads and rates to try. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from b200kit.inventory.keys import parsers
from b200kit.inventory.keys.parsers import setting


@dataclass(frozen=True)
class Tune:
    """What deploy/tune.py tries. Objective and share are those of the smoke test."""

    layouts: tuple[str, ...] = setting(
        parsers.sequence(parsers.text),
        'layouts by name: "asked", "plan-TP2" and so on, and those of b200kit/tuning/matrix.yaml '
        '("A"); every one that can be when empty',
        (),
    )
    workloads: tuple[str, ...] = setting(
        parsers.sequence(parsers.text),
        'loads of b200kit/tuning/matrix.yaml, or "smoke": that of the smoke test; the first one '
        "decides",
        ("chat",),
    )
    requests: int = setting(parsers.integer(5, 5000), "requests a rate, at least", 120)
    seconds: float = setting(parsers.number(0, 600), "how long a rate is held, at least", 20.0)
    first: float = setting(
        parsers.number(0.05, 1000),
        "requests a second to begin with; latency is compared there",
        4.0,
    )
    most: float = setting(parsers.number(0.05, 10_000), "the highest rate that is asked", 512.0)
    resolution: float = setting(
        parsers.number(0.01, 1), "how near the last good and the first bad rate must come", 0.1
    )
    cells: int = setting(parsers.integer(1, 50), "rates of one sweep, at most", 12)
    bench: bool = setting(
        parsers.boolean, "measure each rate with `vllm bench serve`, too, where there is one", True
    )
