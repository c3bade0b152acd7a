"""Writes the chosen layout as inventory data into the run's reports, proven by reading it back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from deploy.catalogue import ROOT
from deploy.core import tuning_words
from deploy.core.fields import Problem
from deploy.core.spec import NodeSpec
from deploy.core.tuning import KEYS
from deploy.core.tuning_layouts import Parse
from deploy.report.files import write_text
from deploy.report.names import safe_name
from deploy.run import Node, StageFailed, timestamp
from deploy.session import RUN


def write(node: Node, document: Mapping[str, Any], parse: Parse) -> str:
    """The path of the fragment, relative to here. Raises StageFailed when it is no inventory."""
    text = tuning_words.fragment(document, RUN.id, timestamp())
    prove(text, document["chosen"]["layout"], parse)
    path = ROOT / "reports" / RUN.id / f"{safe_name(node.name)}.layout.py"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    except OSError as error:
        raise StageFailed(f"the layout cannot be written to {path}: {error}") from None
    return os.path.relpath(path)


def prove(text: str, layout: Mapping[str, Any], parse: Parse) -> NodeSpec:
    """The spec of the inventory with the fragment in it. Raises StageFailed when it is another."""
    parsed: NodeSpec | list[Problem] = parse(tuning_words.values(text))
    if isinstance(parsed, list):
        told = "; ".join(f"{problem.key}: {problem.message}" for problem in parsed)
        raise StageFailed(f"the layout is refused as inventory data: {told}")
    other = [key for key in KEYS if getattr(parsed, key) != layout[key]]
    if other:
        raise StageFailed(f"the layout reads back with another {', '.join(other)}")
    return parsed
