"""Checks that are one comparison on every GPU, each written as one row of a table.

A row names the check, the reading of a GPU, the expectation in the hardware data (its unit comes
from there), what is reported and what to do. `register` makes the checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from b200kit.node.checks.findings import each_gpu, failed, passed
from b200kit.node.checks.judge import Check, check
from b200kit.node.checks.node_scale import OnNode
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView


@dataclass(frozen=True)
class GpuCheck:
    """One check: id, dotted path of the reading, name of the expectation, words, action.

    `on_node`: what its fault means where all GPUs show it.
    """

    id: str
    reading: str
    expectation: str
    text: str
    action: Action
    on_node: OnNode = field(default_factory=OnNode, kw_only=True)

    kind: ClassVar[type[int]] = int
    """Type of the reading and of the expectation."""

    @property
    def holds(self) -> str:
        """What holds on a healthy node, for the reference pages."""
        return f"No GPU {self.text}."

    def is_good(self, reading: int, expected: Expected) -> bool:
        """Whether a reading is as expected."""
        return bool(reading == expected.value)

    def fault(self, reading: int, expected: Expected) -> str:
        """What a GPU with a bad reading is or has."""
        del reading, expected
        return self.text

    def all_good(self, expected: Expected) -> str:
        """What is reported when no GPU has a fault."""
        return f"{self.expectation} is {expected.value} on every GPU"

    def findings(self, expect: Expectation, state: StateView) -> Iterator[Finding]:
        """The check itself."""
        expected, keys = expect.hardware(self.expectation, self.kind), self.reading.split(".")

        def check_gpu(gpu: GpuView) -> Iterator[Finding]:
            reading = gpu.get(self.kind, *keys)
            if not self.is_good(reading, expected):
                summary = f"{gpu.subject} {self.fault(reading, expected)}"
                yield failed(summary, f"{self.reading} {reading}", expected, self.action, gpu)

        return each_gpu(state, check_gpu, passed(self.all_good(expected), expected))


class Floor(GpuCheck):
    """A number that is not below an expectation; `text` is what is counted."""

    @property
    def holds(self) -> str:
        """That there is enough."""
        return f"Every GPU has its {self.text}."

    def is_good(self, reading: int, expected: Expected) -> bool:
        """Whether it reaches the floor."""
        return bool(reading >= expected.value)

    def fault(self, reading: int, expected: Expected) -> str:
        """How much there is."""
        return f"has {reading} {expected.unit} of {self.text}"

    def all_good(self, expected: Expected) -> str:
        """The floor."""
        return f"{self.text} is at least {expected.text}"


class Limit(GpuCheck):
    """A count that is not above an expectation; `text` is what is counted."""

    @property
    def holds(self) -> str:
        """That there are not too many."""
        return f"No GPU has too many {self.text}."

    def is_good(self, reading: int, expected: Expected) -> bool:
        """Whether it is within the limit."""
        return bool(reading <= expected.value)

    def fault(self, reading: int, expected: Expected) -> str:
        """How many there are."""
        del expected
        return f"has {reading} {self.text}"

    def all_good(self, expected: Expected) -> str:
        """The limit."""
        return f"{self.text}: at most {expected.text} on every GPU"


class Flag(GpuCheck):
    """A flag that is as expected; `text` is what a GPU is or has where it is not."""

    kind: ClassVar[type[int]] = bool


@dataclass(frozen=True)
class Code(GpuCheck):
    """A number with a meaning that is the expected one; `text` is what the number is."""

    bad: Callable[[int], str]
    good: str
    meaning: str

    @property
    def holds(self) -> str:
        """As the row has it."""
        return self.meaning

    def fault(self, reading: int, expected: Expected) -> str:
        """What the number means."""
        del expected
        return self.bad(reading)

    def all_good(self, expected: Expected) -> str:
        """What the expected number means."""
        del expected
        return self.good


def register(rows: Iterable[GpuCheck]) -> None:
    """Make each row a check."""
    for row in rows:
        check(row.id, row.on_node)(_check(row))


def _check(row: GpuCheck) -> Check:
    def run(expect: Expectation, state: StateView) -> Iterator[Finding]:
        return row.findings(expect, state)

    run.__doc__ = row.holds
    return run
