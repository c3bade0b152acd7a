"""Fit states with one field spoiled, any number of them, the same for each number in every run.

A field that is gone is tests/unit/node/checks/test_judge_fails_closed.py.
"""

from __future__ import annotations

import random
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

from b200kit.node.checks.judge import judge
from b200kit.node.state.verdict import Action, Verdict
from tests.unit import node_schema, paths, states

FIXED = 300
"""How many the tests try."""
FIT = ("healthy-hgx-b200", "healthy-snc2-four-nodes")
KINDS = ("implausible", "duplicated", "unequal")
IMPLAUSIBLE: dict[type, tuple[Any, ...]] = {
    bool: (0, 1, "true", None, [], -1),
    int: (-(2**31), 2**32 - 1, 2**64 - 1, 10**30, float("nan"), True, "0", None, [], 1.5),
    float: (float("nan"), float("inf"), -1e9, "0", True, None),
    str: ("\x1b[2J", "a\nb", "\u202e", "x" * 100_000, 0, True, None, [], {}),
    list: ({}, "x", 0, None),
    dict: ([], "x", 0, None),
}
"""By the type of what is there: what no field of that type can be."""
MAY_DIFFER = {
    "gpus[*].ecc_aggregate_uncorrected": "a count of its own, within its limit",
    "gpus[*].remap.uncorrectable": "a count of its own, within its limit",
    "gpus[*].sram.aggregate_uncorrected": "a count of its own, within its limit",
    "gpus[*].clocks_event_reasons": "why its clocks are as they are; the bad reasons are judged",
    "gpus[*].fabric.health_mask": "each field of it is judged; two values of a field are good",
    "gpus[*].slowdown_margin_c": "how far a GPU is from its own limit is judged",
}
"""Fields in which a GPU may differ from its peers, and why."""


@dataclass(frozen=True)
class Spoiled:
    """One state, what was done to it and where."""

    base: str
    kind: str
    place: str
    general: str
    state: states.State
    before: Verdict

    def is_seen(self) -> bool:
        """Whether the node is not fit, or a note asks for an eye on it."""
        verdict = judge(states.expectation(), self.state)
        notes = {f for f in verdict.findings if f.action is not Action.NONE}
        return verdict.fit != "fit" or bool(notes - set(self.before.findings))


@cache
def _base(name: str) -> tuple[states.State, dict[str, tuple[paths.Path, ...]], Verdict]:
    state = states.recorded(name)
    del state["provenance"]
    by_kind: dict[str, list[paths.Path]] = {}
    for path in paths.leaves(state):
        options = path[:2] == ("kernel", "driver_options")  # an older driver has fewer
        if node_schema.is_judged(path) and paths.at(state, path) is not None and not options:
            by_kind.setdefault(paths.write(paths.general(path)), []).append(path)
    return state, {k: tuple(v) for k, v in by_kind.items()}, judge(states.expectation(), state)


def case(number: int) -> Spoiled:
    """The state of a number."""
    draw = random.Random(number)
    name = draw.choice(FIT)
    fit, by_kind, before = _base(name)
    while True:
        general = draw.choice(sorted(by_kind))
        path, kind = draw.choice(by_kind[general]), draw.choice(KINDS)
        state = _with_own(fit, path)
        if SPOIL[kind](state, path, draw):
            return Spoiled(name, kind, paths.write(path), general, state, before)


def _with_own(state: states.State, path: paths.Path) -> states.State:
    """The state, in which what is above a path may be changed."""
    found = copy(state)
    here: Any = found
    for key in path[:-1]:
        here[key] = copy(here[key])
        here = here[key]
    return found


def _implausible(state: states.State, path: paths.Path, draw: random.Random) -> bool:
    odd = draw.choice(IMPLAUSIBLE[type(paths.at(state, path))])
    paths.put(state, path, odd)
    return not node_schema.allows(path, odd)


def _duplicated(state: states.State, path: paths.Path, draw: random.Random) -> bool:
    """An entry of a list of records is there twice."""
    depths = [n for n, key in enumerate(path) if isinstance(key, int)]
    records = [n for n in depths if isinstance(paths.at(state, path[: n + 1]), dict)]
    if not records:
        return False
    above, number = path[: (at := draw.choice(records))], path[at]
    paths.at(state, above).append(deepcopy(paths.at(state, above)[number]))
    return True


def _unequal(state: states.State, path: paths.Path, draw: random.Random) -> bool:
    """One GPU reads otherwise than its seven peers, which all read the same."""
    if path[0] != "gpus" or "links" in path or paths.write(paths.general(path)) in MAY_DIFFER:
        return False
    values = {repr(paths.at(state, ("gpus", n, *path[2:]))) for n in range(8)}
    if len(values) > 1:
        return False
    value = paths.at(state, path)
    if type(value) is bool:
        paths.put(state, path, not value)
    elif type(value) is int:
        paths.put(state, path, value + draw.choice((1, 2)))
    elif type(value) is str:
        paths.put(state, path, value[:-1] + ("2" if value[-1:] == "1" else "1"))
    return bool(paths.at(state, path) != value)


SPOIL = {
    "implausible": _implausible,
    "duplicated": _duplicated,
    "unequal": _unequal,
}
