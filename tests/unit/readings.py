"""Every kind of reading in the healthy state: one place of each, by names such as
``gpus[*].links[*].state``.

The healthy state has some 6000 readings of about 200 kinds; replacing one of each kind is what the
exhaustive tests can afford.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from b200kit.node.checks.judge import judge
from b200kit.node.state.verdict import Verdict
from tests.unit import paths, states
from tests.unit.paths import Path

GONE = {"unmeasured": "for the test"}
HEALTHY = "healthy-hgx-b200"


@cache
def places() -> dict[str, list[Path]]:
    """Kind of reading to every place of it that is not null, as the first of P2P is."""
    state = states.recorded(HEALTHY)
    found: dict[str, list[Path]] = {}
    for path in paths.leaves(state):
        known = found.setdefault(paths.write(paths.general(path)), [])
        if paths.at(state, path) is not None or not known:
            known.append(path)
    return found


@cache
def kinds() -> dict[str, Path]:
    """Kind of reading to one place of it, the last: the last NIC carries data, the first none."""
    return {kind: found[-1] for kind, found in places().items()}


@cache
def branches() -> dict[str, Path]:
    """As `kinds`, with every object and list above them."""
    above = {path[:length] for path in kinds().values() for length in range(1, len(path) + 1)}
    named = {paths.write(paths.general(path)): path for path in sorted(above, key=str)}
    return dict(sorted(named.items()))


def with_one(path: Path, value: Any) -> states.State:
    """The healthy state with another value at one place."""
    state = states.recorded(HEALTHY)
    paths.put(state, path, value)
    return state


def without_one(kind: str) -> states.State:
    """The healthy state without one reading; an entry of a list is null, so that others stay."""
    path = branches()[kind]
    state = states.recorded(HEALTHY)
    if isinstance(path[-1], int):
        paths.put(state, path, None)
    else:
        paths.remove(state, [path])
    return state


@cache
def verdict_gone(kind: str) -> Verdict:
    """The verdict on the healthy node when a reading of a kind, or a part, is not measured."""
    return judge(states.expectation(), with_one(branches()[kind], GONE))
