"""Writes the chosen layout as inventory data into the run's reports, proven by reading it back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.spec import NodeSpec
from b200kit.node.lib import timestamp
from b200kit.report.files import write_text
from b200kit.run.node import Node, StageFailed
from b200kit.run.places import home, safe_name
from b200kit.run.session import RUN
from b200kit.tuning import fragment
from b200kit.tuning.candidates import Parse
from b200kit.tuning.cells import KEYS


def write(node: Node, document: Mapping[str, Any], parse: Parse) -> str:
    """The path of the fragment, relative to here. Raises StageFailed when it is no inventory."""
    text = fragment.fragment(document, RUN.id, timestamp.now())
    prove(text, document["chosen"]["layout"], parse)
    path = home() / "reports" / RUN.id / f"{safe_name(node.name)}.layout.py"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    except OSError as error:
        raise StageFailed(f"the layout cannot be written to {path}: {error}") from None
    return os.path.relpath(path)


def prove(text: str, layout: Mapping[str, Any], parse: Parse) -> NodeSpec:
    """The spec of the inventory with the fragment in it. Raises StageFailed when it is another."""
    parsed: NodeSpec | list[Problem] = parse(fragment.values(text))
    if isinstance(parsed, list):
        message = "; ".join(f"{problem.key}: {problem.message}" for problem in parsed)
        raise StageFailed(f"the layout is refused as inventory data: {message}")
    other = [key for key in KEYS if getattr(parsed, key) != layout[key]]
    if other:
        raise StageFailed(f"the layout reads back with another {', '.join(other)}")
    return parsed
