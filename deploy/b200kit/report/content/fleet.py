"""The nodes of a run side by side: one row a node, so that the odd one out shows."""

from __future__ import annotations

from dataclasses import dataclass

from b200kit.report.content.latency import METRICS, goodput_share
from b200kit.report.content.records import history_of
from b200kit.report.document import clean, milliseconds, number, read
from b200kit.report.outcome import Outcome, outcome_of, ranked

LEAST = 2
"""Measured nodes below which there is nothing to hold side by side."""
_SHOWN = ("ttft", "tpot")


@dataclass(frozen=True, slots=True)
class Figure:
    """A median in ms as text, and its part of the largest one in percent, for its bar."""

    text: str
    bar: float


@dataclass(frozen=True, slots=True)
class Row:
    """One node: how it ended, its medians, requests that met the objective, against its record."""

    name: str
    outcome: Outcome
    stand_in: bool
    figures: tuple[Figure, ...]
    good: str
    record: str


HEAD = ("node", "outcome", *(f"{METRICS[key]} P50, ms" for key in _SHOWN), "met the objective",
        "against its record")  # fmt: skip


def fleet(record: object) -> list[Row]:
    """Return a row for each node of a run, none where fewer than LEAST were measured."""
    hosts = ranked(record)
    found = {n: [_median(host, key) for key in _SHOWN] for n, host in hosts.items()}
    if sum(any(v is not None for v in row) for row in found.values()) < LEAST:
        return []
    most = [max((v for v in column if v is not None), default=0.0)
            for column in zip(*found.values(), strict=True)]  # fmt: skip
    return [_row(name, hosts[name], values, most) for name, values in found.items()]


def _median(host: object, key: str) -> float | None:
    return number(read(host, "smoke", f"p50_{key}_ms"))


def _row(name: str, host: object, values: list[float | None], most: list[float]) -> Row:
    return Row(
        name=clean(name),
        outcome=outcome_of(host),
        stand_in=read(host, "smoke", "conditions", "stand_in") is True,
        figures=tuple(
            Figure("unmeasured", 0.0)
            if value is None
            else Figure(milliseconds(value), 100 * value / top if top > 0 else 0.0)
            for value, top in zip(values, most, strict=True)
        ),
        good=goodput_share(read(host, "smoke")),
        record=history_of(host).word or "unmeasured",
    )
