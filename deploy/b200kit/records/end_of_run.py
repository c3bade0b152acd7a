"""The end of a run: each new measurement goes into the record with its conditions, is compared with
the earlier ones and diagnosed. The result is in the host's part of the run's document.

Nothing here may cost a run its report: what goes wrong is one line of the host it happened to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.lib.documents import unstructure
from b200kit.node.state.view import Unmeasured
from b200kit.records import comparison, diagnosis, machines, provenance
from b200kit.records import entries as records
from b200kit.records.comparison import AgainstRecord, timeline
from b200kit.records.entries import RecordError
from b200kit.records.store import Records
from b200kit.run.document import FinishedHost
from b200kit.run.node import Node

T = TypeVar("T")
RUNS = Records()
_UNREADABLE = (OSError, RecordError)
logger = logging.getLogger(__name__)


def hosts(
    nodes: Mapping[str, Node], run: str
) -> Iterator[tuple[str, FinishedHost | dict[str, Any]]]:
    """Yield each node's part of a run's document; each that was not finished before is fresh."""
    for name, node in sorted(nodes.items()):
        yield name, node.finished or host(node, run)


def host(node: Node, run: str) -> dict[str, Any]:
    """A node's part of a run's document, with what it measured taken in."""
    found = node.to_json()
    _keep_machine(node, found["state"])
    if smoke := node.record.smoke:
        found["record"] = unstructure(_guarded(node, partial(_taken, node, smoke, run)))
        diagnosed = _guarded(node, partial(diagnosis.diagnose, found, diagnosis.load()))
        found["diagnosis"] = unstructure(diagnosed)
    return found


def _keep_machine(node: Node, observed: Any) -> None:
    """What a later run must know of a node that does not answer then."""
    try:
        machines.keep(node.name, observed)
    except OSError as error:
        node.say("record", f"its UUID and serial number cannot be kept: {error}")


def _guarded(node: Node, take: Callable[[], T]) -> Unmeasured | T:
    try:
        return take()
    except _UNREADABLE as error:
        why = str(error)
    except Exception as error:
        # A mistake of ours must not take the report with it; the debug log keeps the trace.
        logger.debug("record of %s", node.name, exc_info=True)
        why = f"internal error, {type(error).__name__}: {error}"
    node.say("record", f"this result is not in the record: {why}")
    return Unmeasured(f"this result is not in the record: {why}")


def _taken(node: Node, smoke: SmokeResult, run: str) -> AgainstRecord:
    """Append a result of this run, then hold the record's newest runs against the baseline."""
    # A result with an age was measured by an earlier run, which recorded it.
    if node.record.smoke_age_s is None:
        entry = records.run_entry(provenance.run_conditions(node), smoke, run)
        RUNS.append(node.name, entry)
    known = RUNS.read(node.name)
    newest = comparison.latest(known, 1)
    return replace(
        comparison.against(known),
        timeline=timeline(known),
        conditions=known.runs[-1].conditions if known.runs else None,
        by_tp=comparison.by_tensor_parallel(known.runs, newest[-1]) if newest else (),
    )
