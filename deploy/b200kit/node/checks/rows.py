"""Checks that are one comparison on every GPU, made of the rows in rows.yaml."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from b200kit.node.checks.findings import each_gpu, failed, passed
from b200kit.node.checks.judge import check
from b200kit.node.checks.node_scale import NAMED, OnNode
from b200kit.node.lib import tables
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView

GROUPS: dict[str, dict[str, dict[str, Any]]] = tables.load(__package__, "rows")
"""Rows by group and the id of the check."""


@dataclass(frozen=True)
class RowComparison:
    """How a reading is compared with what is expected, and what is said of it.

    `holds` and `good` are said where a row has no words of its own, `fault` of a GPU.
    """

    kind: type[int]
    is_good: Callable[[int, int], bool]
    holds: str
    fault: str
    good: str


_SAME = "No GPU {text}.", "{text}", "{expectation} is {value} on every GPU"
COMPARISONS = {
    "at_least": RowComparison(
        int, operator.ge, "Every GPU has its {text}.", "has {reading} {unit} of {text}",
        "{text} is at least {expected}",
    ),
    "at_most": RowComparison(
        int, operator.le, "No GPU has too many {text}.", "has {reading} {text}",
        "{text}: at most {expected} on every GPU",
    ),
    "equals": RowComparison(int, operator.eq, *_SAME),
    "is": RowComparison(bool, operator.eq, *_SAME),
}  # fmt: skip
_ACTIONS = {action.word: action for action in Action}


def register(group: str) -> None:
    """Make each row of a group a check."""
    for identifier, row in GROUPS[group].items():
        _register(identifier, **row)


def _register(
    identifier: str, *, reading: str, text: str, action: str, on_node: str = "each",
    meanings: Mapping[str, str] = MappingProxyType({}), holds: str = "", good: str = "", **how: str,
) -> None:  # fmt: skip
    [(comparison, name)] = how.items()
    compare, keys, todo = COMPARISONS[comparison], reading.split("."), _ACTIONS[action]
    fault = compare.fault.replace("{text}", text)

    def run(expect: Expectation, state: StateView) -> Iterator[Finding]:
        expected = expect.hardware(name, compare.kind)
        value, unit = expected.value, expected.unit

        def check_gpu(gpu: GpuView) -> Iterator[Finding]:
            found = gpu.get(compare.kind, *keys)
            if not compare.is_good(found, value):
                meaning = meanings.get(str(found), found)
                summary = fault.format(reading=found, unit=unit, meaning=meaning)
                yield failed(f"{gpu.subject} {summary}", f"{reading} {found}", expected, todo, gpu)

        well = (good or compare.good).format(
            text=text, expectation=name, value=value, expected=expected.text
        )
        return each_gpu(state, check_gpu, passed(well, expected))

    run.__doc__ = holds or compare.holds.format(text=text)
    check(identifier, NAMED.get(on_node) or OnNode(action=_ACTIONS[on_node]))(run)
