"""A tuning at work on one node: take it to a layout as a deploy would, measure cell by cell.

A layout is changed by the stages of b200.py, so that what is measured is what would be deployed.
Where replicas get other GPUs everything is stopped first: an old one would hold what a new one
needs. Whatever a layout does wrong is that layout's result, and the next one is tried; afterwards
the stages that follow in deploy/tune.py put the node back.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from dataclasses import replace

from b200kit.converge.stage import Change, Stage, nothing
from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.lib import timestamp
from b200kit.node.state import drift
from b200kit.operations import observe
from b200kit.records import tuning as cells
from b200kit.records.tuning import CellLine, Layout, LayoutLine, TuningCell, Workload
from b200kit.run import remote
from b200kit.run.node import Node, StageFailed, span
from b200kit.run.remote import RemoteError
from b200kit.run.session import RUN
from b200kit.serving import engine_install
from b200kit.stages import gate, pipeline, serving
from b200kit.tuning.candidates import Candidate, Parse
from b200kit.tuning.fragment import write
from b200kit.tuning.plan import TuningPlan, for_node

_PROBLEMS = (RemoteError, StageFailed)
# Beyond the sending of a cell: correctness, uncounted and direct requests, the client's own start.
_BESIDE_S = 300
# A sweep goes beyond what the replicas can take, and does not compare them.
OF_A_CELL = "--any-load --direct-requests 1"
_ANSWERING = re.compile(r"[1-9][0-9]* requests$")
logger = logging.getLogger(__name__)


class TuningRun:
    """The tuning of one node of a run; its stages stand in deploy/tune.py."""

    def __init__(self, node: Node, parse: Parse) -> None:
        self.node, self.parse = node, parse
        self.plan: TuningPlan | None = None
        # The layout the node is at, as far as this run knows.
        self.here: Layout | None = None
        self.cells = Stage(name="tune", desired=nothing, plan=self._plan_cells)
        self.clear = Stage(name="put back", desired=nothing, plan=self._clear)
        self.choice = Stage(name="choice", desired=nothing, plan=self._plan_choice)

    def _planned(self) -> TuningPlan:
        if self.plan is None:
            node = self.node
            if not drift.is_present(engine_install.stamp(node), node.state or {}):
                raise StageFailed("nothing serves here yet: take it live with b200 deploy first")
            node.layout()
            self.plan = for_node(node, self.parse)
            for refused in self.plan.refused:
                node.say("tune", f"not tried: {refused}")
        return self.plan

    def _plan_cells(self, node: Node) -> list[Change]:
        """One change a layout that is not measured to the end."""
        del node
        plan = self._planned()
        left = [self._change(one) for one in plan.candidates if plan.open(one.layout)]
        return [Change("see that nobody uses the node", _alone), *left] if left else []

    def _change(self, candidate: Candidate) -> Change:
        plan = self._planned()

        def act(node: Node) -> str | None:
            try:
                self._tune(candidate)
            except Exception as error:
                # A layout that fails must not keep the node from being put back.
                logger.debug("layout %s on %s", candidate.layout, node.name, exc_info=True)
                self._give_up(candidate.layout, f"{type(error).__name__}: {error}", 0.0)
            finally:
                self._back()
                node.record.tuning = plan.result()
            return None

        def progress_text(seconds: float) -> str:
            del seconds
            return f"{candidate.layout}; at most about {span(plan.left_s(self.here))} left"

        return Change(plan.describe(candidate.layout), act, progress_text)

    def _tune(self, candidate: Candidate) -> None:
        """Take the node to a layout and measure there until its sweeps are over."""
        plan, layout = self._planned(), candidate.layout
        began = time.monotonic()
        try:
            self._go(candidate)
        except _PROBLEMS as error:
            self._give_up(layout, str(error), time.monotonic() - began)
            return
        plan.add(_layout_line(layout, time.monotonic() - began))
        for workload in plan.workloads:
            while (rate := plan.next_rate(layout, workload)) is not None:
                try:
                    self._cell(layout, workload, rate)
                except _PROBLEMS as error:
                    self._give_up(layout, f"{workload.name} at {rate:g}/s: {error}", 0.0)
                    return

    def _give_up(self, layout: Layout, why: str, seconds: float) -> None:
        """The fault of a layout is stored as its result; this run does not try it again."""
        plan = self._planned()
        plan.given_up.add(tuple(layout.values.values()))
        self.node.say("tune", f"{layout}: FAILED: {why}")
        # A full disk may be why; the node is put back even so.
        with contextlib.suppress(OSError):
            plan.add(_layout_line(layout, seconds, why))
            for workload in plan.workloads:
                if plan.next_rate(layout, workload) is not None:
                    plan.add(_failed_line(plan, layout, workload, why))

    def _go(self, candidate: Candidate) -> None:
        """Bring the node to a layout by the stages of b200.py."""
        self.node.spec, self.node.state = candidate.spec, None
        self._make(self._clear(self._observed()))
        self.here = candidate.layout
        for stage in (step.run for step in pipeline.SERVING if isinstance(step.run, Stage)):
            self._make(stage.plan(self._observed()))

    def _make(self, changes: list[Change]) -> None:
        """Make some changes; afterwards nothing observed before is valid any more."""
        for change in changes:
            self.node.say("tune", change.what)
            change.apply(self.node)
            self.node.state = None

    def _clear(self, node: Node) -> list[Change]:
        """Stop what serves where replicas are to get other GPUs than they have, or may have."""
        known = self.here is not None and self.here.shape == _shape(node)
        if known or not serving.STAGE.plan(node):
            return []
        return [Change("stop what serves: its replicas get other GPUs", _withdraw)]

    def _back(self) -> None:
        """From here on the desired state is the inventory's; the stages converge to it."""
        self.node.spec, self.node.state = self._planned().configured, None

    def _observed(self) -> Node:
        """The node, observed again when something changed."""
        if self.node.state is None:
            observe.refresh(self.node, RUN.id)
        return self.node

    def _cell(self, layout: Layout, workload: Workload, rate: float) -> None:
        """Measure one cell and keep it. Raises RemoteError."""
        plan, node, started = self._planned(), self.node, timestamp.now()
        requests = plan.load.count(rate)
        options = (
            f"--requests {requests} --rate {rate:g} --input-tokens {workload.input_tokens} "
            f"--output-tokens {workload.output_tokens}"
        )
        limit = round(requests / rate) + _BESIDE_S
        asked = f"{options} {OF_A_CELL}{_prompts(node)}"
        asked = f"measure --config {serving.SERVING} {asked}"
        ours = remote.measured(SmokeResult, node.connected().attempt_program(asked, timeout=limit))
        why = cells.fault(ours)
        cell = TuningCell(
            layout, workload.name, rate, "failed" if why else "done", why,
            replace(ours.without_series(), direct={}), started, timestamp.now(),
        )  # fmt: skip
        plan.add(CellLine(plan.key(layout, workload), cell))
        node.record.tuning = plan.result()
        self._say(cell)

    def _say(self, cell: TuningCell) -> None:
        """One line a cell: what came of it, and how long the rest takes at most."""
        plan, found = self._planned(), cell.point
        verdict = found.verdict(plan.sweep.share)
        figures = f"{found.good} of {found.of} good" if found.good is not None else cell.why
        left = span(plan.left_s(self.here))
        text = f"{cell.layout}: {cell.workload} {cell.rate:g}/s {verdict}: {figures}"
        self.node.say("tune", f"{text}; at most about {left} left")

    def _plan_choice(self, node: Node) -> list[Change]:
        plan = self._planned()
        return [Change(f"choose a layout for {plan.goal} and write it", self._choose)]

    def _choose(self, node: Node) -> str:
        node.record.tuning = found = self._planned().result()
        chosen = found.chosen
        if chosen.layout is None:
            raise StageFailed(chosen.why)
        node.say("choice", chosen.why)
        return f"as inventory data: {write(node, found, chosen.layout)}"


def _alone(node: Node) -> None:
    """Raises StageFailed where the gateway is answering requests: they would be cut off."""
    listing = node.connected().program("rotation list", timeout=30)
    busy = [" ".join(line.split()) for line in listing.splitlines() if _ANSWERING.search(line)]
    if busy:
        raise StageFailed(f"it has traffic ({', '.join(busy)}): take it out first")


def _withdraw(node: Node) -> None:
    gate.withdraw(node)


def _shape(node: Node) -> tuple[int, int, int, bool]:
    spec = node.spec
    return spec.replicas, spec.tensor_parallel, spec.data_parallel, spec.expert_parallel


def _prompts(node: Node) -> str:
    """Random words, unless the inventory asks for those of its smoke test."""
    return "" if node.spec.tune.prompts == "smoke" else " --random-words"


def _layout_line(layout: Layout, seconds: float, why: str = "") -> LayoutLine:
    return LayoutLine(layout, round(seconds, 1), timestamp.now(), why)


def _failed_line(plan: TuningPlan, layout: Layout, workload: Workload, why: str) -> CellLine:
    now, rate = timestamp.now(), plan.next_rate(layout, workload)
    cell = TuningCell(layout, workload.name, rate, "failed", why, None, now, now)
    return CellLine(plan.key(layout, workload), cell)
