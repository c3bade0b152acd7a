"""A chosen layout as inventory data, to paste into group_data: with its evidence, and proven."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence
from textwrap import wrap
from typing import Any

from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.spec import NodeSpec
from b200kit.node.lib import timestamp
from b200kit.records.tuning import Layout, TuningResult
from b200kit.report.files import write_text
from b200kit.run.node import Node, StageFailed
from b200kit.run.places import home, safe_name
from b200kit.run.session import RUN
from b200kit.tuning.candidates import Parse

_WIDTH = 98


def fragment(found: TuningResult, layout: Layout, run: str, at: str) -> str:
    """Python that sets the keys of the chosen layout, its reasons above them as comments."""
    head = f"Layout of {found.node} for goal {found.goal}, by deploy/tune.py, run {run}"
    lines = _comment(f"{head}, {at}.")
    lines += _comment(f"Why: {found.chosen.why}.")
    lines += _comment("Evidence, best first:")
    for one in found.chosen.evidence:
        lines += _comment(f"- {one.layout.name}: {one.words}")
    for refused in found.refused:
        lines += _comment(f"Not tried: {refused}")
    values = [f"{key} = {value!r}" for key, value in layout.values.items()]
    return "\n".join([*lines, "", *values]) + "\n"


def _comment(text: str) -> list[str]:
    # A line break inside would end the comment.
    plain = " ".join(text.split())
    return [f"# {line}" for line in wrap(plain, _WIDTH)]


def values(text: str) -> dict[str, Any]:
    """The keys that a fragment sets. Raises ValueError for anything but plain assignments."""
    found: dict[str, Any] = {}
    for statement in _statements(text):
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            raise ValueError("more than assignments")
        target = statement.targets[0]
        if not isinstance(target, ast.Name):
            raise ValueError("an assignment to more than a name")
        found[target.id] = ast.literal_eval(statement.value)
    return found


def _statements(text: str) -> Sequence[ast.stmt]:
    try:
        return ast.parse(text).body
    except SyntaxError as error:
        raise ValueError(f"no Python: {error.msg}") from None


def write(node: Node, found: TuningResult, layout: Layout, parse: Parse) -> str:
    """The path of the fragment, relative to here. Raises StageFailed when it is no inventory."""
    text = fragment(found, layout, RUN.id, timestamp.now())
    prove(text, layout, parse)
    path = home() / "reports" / RUN.id / f"{safe_name(node.name)}.layout.py"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    except OSError as error:
        raise StageFailed(f"the layout cannot be written to {path}: {error}") from None
    return os.path.relpath(path)


def prove(text: str, layout: Layout, parse: Parse) -> NodeSpec:
    """The spec of the inventory with the fragment in it. Raises StageFailed when it is another."""
    parsed: NodeSpec | list[Problem] = parse(values(text))
    if isinstance(parsed, list):
        message = "; ".join(f"{problem.key}: {problem.message}" for problem in parsed)
        raise StageFailed(f"the layout is refused as inventory data: {message}")
    other = [key for key, value in layout.values.items() if getattr(parsed, key) != value]
    if other:
        raise StageFailed(f"the layout reads back with another {', '.join(other)}")
    return parsed
