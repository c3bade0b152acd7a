"""Prometheus' text format, version 0.0.4: families of samples to lines. Pure.

Source: prometheus.io/docs/instrumenting/exposition_formats (quoted). Names are given in base units
and end as Prometheus' conventions say (`_seconds`, `_total`, `_info`); promtool checks them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

Sample = tuple[Mapping[str, object], float]
"""Labels and value of one series."""


@dataclass(frozen=True)
class MetricFamily:
    """One metric: its name, what it is in one sentence, its series. Without a series: absent."""

    name: str
    help: str
    samples: tuple[Sample, ...]
    kind: Literal["gauge", "counter"] = "gauge"

    def lines(self) -> list[str]:
        """HELP, TYPE, then a line a series. Raises ValueError for a name Prometheus refuses."""
        if not NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is no name of a metric")
        text = self.help.translate({ord("\\"): "\\\\", ord("\n"): "\\n"})
        head = [f"# HELP {self.name} {text}", f"# TYPE {self.name} {self.kind}"]
        return [*head, *(_line(self.name, labels, value) for labels, value in self.samples)]


def _line(name: str, labels: Mapping[str, object], value: float) -> str:
    for label in labels:
        if not LABEL.fullmatch(label):
            raise ValueError(f"{name}: {label!r} is no name of a label")
    pairs = ",".join(f'{k}="{str(v).translate(_ESCAPES)}"' for k, v in labels.items())
    return f"{name}{{{pairs}}} {_number(value)}" if pairs else f"{name} {_number(value)}"


def _number(value: float) -> str:
    """Whole numbers without a point: a timestamp must not lose its seconds to an exponent."""
    number = float(value)
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def text(families: Iterable[MetricFamily]) -> str:
    """The whole page; a family without a series is left out."""
    lines = [line for family in families if family.samples for line in family.lines()]
    return "\n".join(lines) + "\n"
