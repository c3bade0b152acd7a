"""docs/reference/stages.md: the pipeline in its order, from the stages' own docstrings."""

from __future__ import annotations

import inspect
from types import ModuleType

from b200kit.cli.pages.markdown import table
from b200kit.converge import stage as stages
from b200kit.node.fabric.states import STATES, State
from b200kit.stages import pipeline

_HEAD = """\
# Stages

Made by `python -m b200kit.cli.reference_pages all`; do not edit.

The order in which `deploy/b200.py` works, with what each module says of itself. What an operator
needs to know is in [Deploy](../deploy.md#stages).
"""

_FABRIC = """\
## States of the fabric stage

A state holds when none of its checks blocks. `share` is the part of `fabric_deadline_s` that it may
last. States whose checks are not applicable to a hardware do not exist there.

"""


def stages_markdown() -> str:
    """The whole page."""
    sections = [_HEAD]
    sections += [f"## {name}\n\n{text}\n" for name, text in texts().items()]
    head = ("state", "waits for", "checks", "helped", "share", "action", "remedy")
    return "\n".join(sections) + "\n" + _FABRIC + table(head, map(_state_row, STATES))


def texts() -> dict[str, str]:
    """Each step of the pipeline, in its order, to what it says of itself."""
    return {
        step.name: str(inspect.getdoc(_module(step.run)))
        if isinstance(step.run, stages.Stage)
        else f"An operation, not a stage. {step.run.text}"
        for step in pipeline.STEPS
    }


def _module(stage: stages.Stage) -> ModuleType:
    """The module that defines a stage."""
    modules = (value for value in vars(pipeline).values() if isinstance(value, ModuleType))
    return next(module for module in modules if stage in _values(module))


def _values(module: ModuleType) -> list[stages.Stage]:
    return [value for value in vars(module).values() if isinstance(value, stages.Stage)]


def _state_row(state: State) -> tuple[str, ...]:
    return (
        f"`{state.name}`",
        state.waits_for,
        ", ".join(f"`{check}`" for check in state.checks),
        "yes" if state.help else "no",
        f"{state.share * 100:.0f} %",
        f"`{state.action.word}`",
        state.remedy,
    )
