"""A chosen layout as inventory data, to paste into group_data, with its evidence."""

from __future__ import annotations

import os
from textwrap import wrap

from b200kit.node.lib import timestamp
from b200kit.records.tuning import Layout, TuningResult
from b200kit.report.files import write_text
from b200kit.run.node import Node, StageFailed
from b200kit.run.places import home, safe_name
from b200kit.run.session import RUN

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


def write(node: Node, found: TuningResult, layout: Layout) -> str:
    """The path of the fragment, relative to here; the layout was tried as inventory data."""
    text = fragment(found, layout, RUN.id, timestamp.now())
    path = home() / "reports" / RUN.id / f"{safe_name(node.name)}.layout.py"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    except OSError as error:
        raise StageFailed(f"the layout cannot be written to {path}: {error}") from None
    return os.path.relpath(path)
