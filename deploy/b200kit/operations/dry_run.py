"""What a run would do, said before anything is changed, from the plans that the run itself makes.

Beside each change stands whom it would cost: which replicas or the gateway would end, and who
serves meanwhile. What a stage or a checkpoint decides is known for as long as no change is foreseen
before it; from then on it describes the node as it is now.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from b200kit.converge.stage import Change, Stage
from b200kit.node.state import drift
from b200kit.node.state.verdict import Verdict
from b200kit.operations import gate, reboot, reboot_policy
from b200kit.run.node import Node, StageFailed, duration
from b200kit.run.remote import RemoteError
from b200kit.serving.gateway import vllm_router
from b200kit.stages import gateway, pipeline, serving_units
from b200kit.stages.pipeline import PipelineCheckpoint

Plan = Callable[[], Sequence[Change]]
GATEWAY = (gateway.UNIT, vllm_router.UNIT)


def preview(node: Node, name: str, plan: Plan, drained: bool = False) -> int:
    """Say what a stage would do; returns how many changes; *drained*: nobody uses it by then."""
    try:
        changes = plan()
        for change in changes:
            if change.looks and not drained:
                change.apply(node)
    except (RemoteError, StageFailed) as error:
        if node.foreseen:
            node.say(name, f"cannot be planned yet: {error}")
        else:
            node.fail(name, f"would fail: {error}")
        return 0
    for change in changes:
        node.say(name, f"would {change.what}{interrupts(node, change.ends)}")
        node.foreseen[change.what] = change.ends
    return len(changes)


def preview_judgement(node: Node, name: str, judge: Callable[[], Verdict]) -> None:
    """Say that a checkpoint would stop what serves, or let no server be installed."""
    try:
        verdict = judge()
    except (RemoteError, StageFailed) as error:
        node.say(name, f"cannot be judged yet: {error}")
        return
    down = {unit for ends in node.foreseen.values() for unit in ends}
    running = serving_units.running(node, serving_units.units(node))
    ends = [unit for unit in running if unit not in down]
    if verdict.fit == "fit" or (node.foreseen and not ends):
        return
    unless = " unless the changes above mend it" if node.foreseen else ""
    if ends:
        node.say(name, f"would stop {', '.join(ends)}{unless}{interrupts(node, ends)}")
    if unless:
        node.say(name, f"as it is now: {gate.why(verdict)}")
    else:
        node.fail(name, gate.why(verdict), outcome="red")


@dataclass(frozen=True)
class Interruption:
    """The replicas that run and those of them, and the gateways, that end."""

    replicas: tuple[str, ...]
    ended: tuple[str, ...]
    gateways: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether the node serves nobody meanwhile."""
        return bool(self) and (bool(self.gateways) or len(self.ended) == len(self.replicas))

    def __bool__(self) -> bool:
        return bool(self.ended or self.gateways)


def interruption(node: Node, ends: Collection[str]) -> Interruption:
    """What of the units that end serves now."""
    running = serving_units.running(node, [*GATEWAY, *serving_units.units(node)])
    replicas = tuple(unit for unit in running if unit.startswith("vllm@"))
    ended = tuple(unit for unit in replicas if unit in ends)
    gateways = tuple(unit for unit in running if unit in ends and unit in GATEWAY)
    return Interruption(replicas, ended, gateways)


def interrupts(node: Node, ends: Collection[str]) -> str:
    """Who is not served while some units end, of those that run; empty when nobody loses by it."""
    found = interruption(node, ends)
    if not found:
        return ""
    replicas, ended, gateways = found.replicas, found.ended, found.gateways
    left = len(replicas) - len(ended)
    numbers = ", ".join(re.findall(r"@([0-9]+)", " ".join(ended)))
    word = "replica" if len(ended) == 1 else "replicas"
    what = [*(["the gateway"] if gateways else []), *([f"{word} {numbers}"] if ended else [])]
    who = f"{left} of {len(replicas)} that run now serve meanwhile"
    if gateways or not replicas:
        who = "this node serves nobody meanwhile"
    return f"; interrupts {' and '.join(what)}: {who}"


def foresee(node: Node) -> list[Change]:
    """All changes that a run would make, as far as they can be planned now; says nothing.

    Where every step was planned and none changes anything, the state is settled: no step plans it
    again.
    """
    found: list[Change] = []
    complete = True
    for step in pipeline.STEPS:
        try:
            changes = _planned(node, step)
        except (RemoteError, StageFailed):
            complete = False
            if not found:
                break
            continue
        found += changes
        node.foreseen |= {change.what: change.ends for change in changes}
    node.foreseen = {}
    if complete and not found:
        node.settle()
    return found


def _planned(node: Node, step: pipeline.PipelineStep) -> list[Change]:
    if isinstance(step.run, Stage):
        return step.run.plan(node)
    return reboot_changes(node) if step.run is PipelineCheckpoint.REBOOT else []


def reboot_changes(node: Node) -> list[Change]:
    """The reboot that would come; raises StageFailed where a run would refuse it."""
    if not node.foreseen:
        why = reboot.reboot_reasons_or_fail(node)
    else:
        why = reboot.reasons(node) or _notified(node)
    if not why:
        return []
    change = reboot.change(node, why)
    if not interrupts(node, change.ends):
        return [change]
    took_s = reboot_policy.took_s(node.state or {})
    last = f"the last one took {duration(took_s)}" if took_s else "how long it takes is not known"
    return [replace(change, what=f"{change.what} ({last})")]


def _notified(node: Node) -> list[str]:
    parts = pipeline.desired(node, before=PipelineCheckpoint.REBOOT)
    files = [file for part in parts for file in part.files]
    changed = drift.changed_files(files, node.state or {}, node.nonce)
    causes = [file.path for file in changed if "reboot" in file.notify]
    return [f"{', '.join(causes)} changes"] if causes else []
