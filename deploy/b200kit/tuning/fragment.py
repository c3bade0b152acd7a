"""A chosen layout as inventory data, to paste into group_data, with its evidence. Pure."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from b200kit.tuning.cells import KEYS

_WIDTH = 98


def fragment(document: Mapping[str, Any], run: str, at: str) -> str:
    """Python that sets the keys of the chosen layout, its reasons above them as comments."""
    chosen = document["chosen"]
    head = f"Layout of {document['node']} for goal {document['goal']}, by deploy/tune.py, run {run}"
    lines = _comment(f"{head}, {at}.")
    lines += _comment(f"Why: {chosen['why']}.")
    lines += _comment("Evidence, best first:")
    for one in chosen["evidence"]:
        lines += _comment(f"- {one['layout']['name']}: {one['words']}")
    for refused in document.get("refused") or ():
        lines += _comment(f"Not tried: {refused['name']}: {refused['why']}")
    values = [f"{key} = {chosen['layout'][key]!r}" for key in KEYS]
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
