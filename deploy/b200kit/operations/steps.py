"""The pyinfra operations of the pipeline: observe, converge a stage, reboot, judge, conclude.

Two rules of pyinfra shape this file. An exception inside an operation's generator stops the run for
every host, so planning is guarded and a failure becomes a command that fails for its own host
alone. And facts read in deploy code are stale when it runs, so nothing is decided outside an
operation.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

from pyinfra.api.command import FunctionCommand
from pyinfra.api.host import Host
from pyinfra.api.operation import operation
from pyinfra.api.state import State, StateStage
from pyinfra.context import ctx_state

from b200kit.converge.stage import Change, Stage
from b200kit.operations import dry_run, gate, readiness, reboot
from b200kit.operations import observe as observation
from b200kit.report.outcome import GOOD
from b200kit.run.node import Node, StageFailed, duration
from b200kit.run.remote import RemoteError
from b200kit.run.session import RUN
from b200kit.stages.pipeline import PipelineCheckpoint, PipelineStep
from b200kit.stages.support import container_runtimes

Commands = Generator[FunctionCommand, None, None]
_HEARTBEAT_S = 15
_EXPECTED = (RemoteError, StageFailed)
logger = logging.getLogger(__name__)


@operation(is_idempotent=True)
def observe(node: Node, lock: bool = True) -> Commands:
    """Look at the whole node in one command; with *lock*, hold it against other runs."""
    yield command(node, "observe", lambda: _first_look(node, lock))


@operation(is_idempotent=True)
def run(node: Node, step: PipelineStep, drained: bool = False) -> Commands:
    """A step of the pipeline, whichever it is; *drained*: nobody uses the node by then."""
    if isinstance(step.run, Stage):
        yield from _converge(node, step.run, drained)
    elif step.run is PipelineCheckpoint.READY:
        yield from _require_ready(node)
    elif step.run is PipelineCheckpoint.REBOOT:
        yield from _reboot_if_needed(node)
    elif step.run is PipelineCheckpoint.GATE:
        yield from _require_proven(node)
    else:
        yield from _require_proof(node)


@operation(is_idempotent=True)
def converge(node: Node, stage: Stage) -> Commands:
    """Make the changes a stage plans; no command when it plans none."""
    yield from _converge(node, stage)


@operation(is_idempotent=True)
def require_proven(node: Node) -> Commands:
    """Judge the node; one that is not proven leaves the run here, and stops serving if it did."""
    yield from _require_proven(node)


@operation(is_idempotent=True)
def judge(node: Node) -> Commands:
    """Judge the node and change nothing; one that is not fit fails."""
    if executing():
        yield command(node, "check", lambda: gate.report(node, observed))


@operation(is_idempotent=True)
def ready(node: Node) -> Commands:
    """Judge whether the node can be provisioned and change nothing; one that cannot be fails."""
    if executing():
        yield command(node, "ready", lambda: readiness.report(node, observed))


@operation(is_idempotent=True)
def conclude(node: Node) -> Commands:
    """The node came through every stage."""
    if executing():
        yield command(node, "live", lambda: gate.conclude(node))
    elif node.record.outcome is None and not node.foreseen:
        node.say("plan", "no change")


def run_now(node: Node, step: PipelineStep) -> None:
    """A step of the pipeline, inside an operation that does more than this."""
    if isinstance(step.run, Stage):
        _converge_now(node, step.run)
    elif step.run is PipelineCheckpoint.READY:
        readiness.require(node, observed)
    elif step.run is PipelineCheckpoint.REBOOT:
        _reboot_now(node)
    elif step.run is PipelineCheckpoint.GATE:
        gate.require(node, observed)
    else:
        gate.require_serving_checks(node, observed)


def _converge(node: Node, stage: Stage, drained: bool = False) -> Commands:
    if not executing():
        yield from _preview(node, stage.name, lambda: _plan(node, stage), drained)
        return
    changes: list[Change] = []
    if not guarded(node, stage.name, lambda: changes.extend(_plan(node, stage))):
        yield command(node, stage.name, _refused)
    elif changes:
        yield command(node, stage.name, lambda: _make(node, stage.name, changes))
    else:
        with node.stage(stage.name):
            pass


def _reboot_if_needed(node: Node) -> Commands:
    if not executing():
        yield from _preview(node, "reboot", lambda: _reboot_foreseen(node))
        return
    reasons: list[str] = []
    if not guarded(node, "reboot", lambda: reasons.extend(_reboot_reasons(node))):
        yield command(node, "reboot", _refused)
    elif reasons:
        yield command(node, "reboot", lambda: _reboot(node, reboot.change(node, reasons)))


def _require_ready(node: Node) -> Commands:
    if executing():
        yield command(node, "ready", lambda: readiness.require(node, observed))
    elif node.record.outcome is None:
        guarded(node, "ready", lambda: readiness.require(node, observed))


def _require_proven(node: Node) -> Commands:
    if executing():
        yield command(node, "gate", lambda: gate.require(node, observed))
    elif node.record.outcome is None:
        dry_run.preview_judgement(node, "gate", lambda: gate.judged(node, observed))


def _require_proof(node: Node) -> Commands:
    if executing():
        yield command(node, "proof", lambda: gate.require_serving_checks(node, observed))
    elif node.record.outcome is None and not node.foreseen:
        dry_run.preview_judgement(node, "proof", lambda: gate.serving_verdict(node, observed))


def command(node: Node, stage: str, act: Callable[[], object]) -> FunctionCommand:
    """A command that fails only for its own host, with one line, whatever happens inside."""

    def run(state: State, host: Host) -> bool:
        del state, host
        return guarded(node, stage, act)

    return FunctionCommand(run, (), {})


def guarded(node: Node, stage: str, act: Callable[[], object]) -> bool:
    """Whether the node is still in the run after *act*; what it raises ends this node's part."""
    try:
        act()
    except _EXPECTED as error:
        node.fail(stage, str(error))
    except Exception as error:
        # A mistake of ours on one node must never stop the fleet; the debug log keeps the trace.
        logger.debug("stage %s on %s", stage, node.name, exc_info=True)
        node.fail(stage, f"internal error, {type(error).__name__}: {error}")
    return node.record.outcome is None or node.record.outcome in GOOD


def _refused() -> None:
    """The failure is recorded already; the command only has to fail."""


def executing() -> bool:
    """Whether pyinfra does what it planned, as opposed to planning it."""
    return bool(ctx_state.get().current_stage == StateStage.Execute)


def _preview(node: Node, name: str, plan: dry_run.Plan, drained: bool = False) -> Commands:
    """For a plan without -y: say what would change, as far as it can be known before it happens."""
    if node.record.outcome is not None:
        return
    # All reported before the first is yielded: pyinfra wants to know only whether there is one.
    for _ in range(dry_run.preview(node, name, plan, drained)):
        yield FunctionCommand(_refused, (), {})


def _reboot_foreseen(node: Node) -> list[Change]:
    observed(node)
    return dry_run.reboot_changes(node)


def _first_look(node: Node, lock: bool) -> None:
    """Observe; before anything is changed, say what the run's own acts may break."""
    observation.refresh(node, RUN.id, lock)
    for line in container_runtimes.warnings(node) if lock else []:
        node.say("observe", line)


def observed(node: Node) -> dict[str, Any]:
    """The node's state; observed again when something changed since the last look."""
    if node.state is None:
        observation.refresh(node, RUN.id, lock=executing() and RUN.changes_nodes)
    return node.state or {}


def _converge_now(node: Node, stage: Stage) -> None:
    changes = _plan(node, stage)
    if changes:
        _make(node, stage.name, changes)
    else:
        with node.stage(stage.name):
            pass


def _reboot_now(node: Node) -> None:
    if reasons := _reboot_reasons(node):
        _reboot(node, reboot.change(node, reasons))


def _plan(node: Node, stage: Stage) -> list[Change]:
    observed(node)
    return [] if node.is_settled else stage.plan(node)


def _reboot_reasons(node: Node) -> list[str]:
    observed(node)
    return reboot.reboot_reasons_or_fail(node)


def _reboot(node: Node, change: Change) -> None:
    """Reboot, then look whether the driver came with it: no later stage could say it as well."""
    _make(node, "reboot", [change])
    observed(node)
    reboot.require_driver(node, node.record.stages[-1].seconds)


def _make(node: Node, stage: str, changes: list[Change]) -> None:
    """Make *changes* in order; afterwards nothing observed before counts as true any more."""
    started = time.monotonic()
    with node.stage(stage) as entry:
        try:
            for change in changes:
                entry.changes.append(change.what)
                detail = _with_heartbeat(node, stage, change)
                entry.detail = detail or entry.detail
        finally:
            node.state = None
    count = len(changes)
    text = entry.detail or f"{count} change{'s' if count != 1 else ''}"
    node.say(stage, text, time.monotonic() - started)


def _with_heartbeat(node: Node, stage: str, change: Change) -> str | None:
    """Make *change*; a step that takes long says now and then that it is still at it."""
    started = time.monotonic()
    done = threading.Event()

    def beat() -> None:
        while not done.wait(_HEARTBEAT_S):
            seconds = time.monotonic() - started
            so_far = f"{change.what}: {duration(seconds)} so far"
            node.say(
                stage, f"... {change.progress_text(seconds) if change.progress_text else so_far}"
            )

    # pyinfra's gevent patches threads into greenlets, so this shares its event loop.
    threading.Thread(target=beat, daemon=True).start()
    try:
        return change.apply(node)
    finally:
        done.set()
