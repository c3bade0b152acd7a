"""No reading is taken in vain: each is judged, reported, or used by a module that is named here."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from b200kit.node.checks.judge import judge
from b200kit.node.lib.documents import unstructure
from b200kit.report.html.page import render
from tests.subtests import in_subtests
from tests.unit import paths, readings, states
from tests.unit.report import records
from tests.unit.report.pages import terminal

ROOT = Path(__file__).parents[3]
UNITS = ("nvidia-fabricmanager.service", "nvidia-persistenced.service")


def kinds() -> dict[str, paths.Path]:
    """Kinds of reading of a node, and not of how the state was recorded, with a place of each."""
    return {kind: path for kind, path in readings.kinds().items() if path[0] != "provenance"}


def units(*keys: str) -> tuple[str, ...]:
    """The readings of every unit under some keys."""
    return tuple(f"units[{unit}].{key}" for unit in UNITS for key in keys)


USED_ELSEWHERE = {
    "b200kit/report/content/run.py": ("took_s",),
    "b200kit/node/state/drift.py": ("files", *units("enabled")),
    "b200kit/node/checks/host/services.py": units("sub", "result"),
    "b200kit/node/checks/serving/bandwidth.py": ("host.boot_id",),
    "b200kit/stages/settings.py": ("host.grub_cmdline",),
    "b200kit/node/facts/processes.py": units("control_group"),
    "b200kit/readiness/machine.py": ("gpus[*].power_min_mw",),
    "b200kit/stages/smoke.py": ("processes", "notes.smoke", *units("invocation_id")),
}
"""Module to readings that neither the healthy node's verdict nor its report shows, used there."""

ELSEWHERE = {kind: module for module, kinds in USED_ELSEWHERE.items() for kind in kinds}


def run_over(state: states.State) -> Any:
    """The record of a run over one node with this observation."""
    return records.record(n1=records.live(state=state, expectation=states.expectation()))


@cache
def healthy() -> tuple[Any, str, str]:
    """Verdict, page and terminal text of the healthy node."""
    state = states.healthy()
    record = run_over(state)
    return unstructure(judge(states.expectation(), state)), render(record), terminal(record)


def first(kind: str) -> paths.Path:
    """The first place of a reading: the first bridge is the root port, the last the GPU's own."""
    state, found = states.healthy(), readings.places()[kind]
    return next((place for place in found if paths.at(state, place) is not None), found[0])


@cache
def shows(kind: str) -> bool:
    """Whether the verdict or the report is another one when a reading of a kind is not there."""
    verdict, page, text = healthy()
    if unstructure(readings.verdict_gone(kind)) != verdict:
        return True
    state = readings.with_one(first(kind), readings.GONE)
    if unstructure(judge(states.expectation(), state)) != verdict:
        return True
    return render(run_over(state)) != page or terminal(run_over(state)) != text


@in_subtests("kind", kinds, one_in=10)
def test_reading_is_used(kind: str) -> None:
    assert shows(kind) != (kind in ELSEWHERE), (
        f"{kind} is judged or reported by now" if shows(kind) else f"{kind} is used nowhere"
    )


@in_subtests("kind", ELSEWHERE)
def test_the_module_that_uses_a_reading_names_it(kind: str) -> None:
    names = [key for key in kinds()[kind] if isinstance(key, str)][-2:]
    quoted = "|".join(f"[\"']{re.escape(name)}[\"']" for name in names)
    assert re.search(quoted, (ROOT / "deploy" / ELSEWHERE[kind]).read_text(encoding="utf-8"))
