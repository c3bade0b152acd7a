"""The NVLink bring-up as a state machine: where a node is by one observation, and what helps. Pure.

It goes through the states of bringup_states.py in order and stands in the first whose checks block.
Checks run in that order, too, so it reports what the gate reports of the same node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from b200kit.node.checks.judge import Check, judge_vetted, registered
from b200kit.node.fabric.states import COMPLETED, STATES, Act, FabricState
from b200kit.node.state import advice
from b200kit.node.state.expectation import Expectation, Unexpected
from b200kit.node.state.verdict import Action, Finding, Status, Verdict
from b200kit.node.state.view import StateView

DONE = "done"


@dataclass(frozen=True)
class Position:
    """Where a node stands: its state and what keeps it there; no state when all is reached."""

    state: FabricState | None
    observed: Finding | None = None
    reached: int = 0

    @property
    def name(self) -> str:
        """The state's name, "done" when all is reached."""
        return self.state.name if self.state else DONE


def position(expectation: object, document: object) -> Position:
    """The first state that does not hold; what cannot be judged holds the node in the first.

    By a document as `plausible` returned it.
    """
    verdict = judge_vetted(expectation, document, _checks())
    for number, state in enumerate(STATES):
        blocking = list(_about(state, verdict))
        if blocking:
            return Position(state, blocking[0], number)
    refused = [finding for finding in verdict.blocking if finding.check not in _checks()]
    if refused or not verdict.findings:
        return Position(STATES[0], refused[0] if refused else None)
    return Position(None, reached=len(STATES))


def _checks() -> Mapping[str, Check]:
    """The checks of all states, in the order of the registry."""
    desired = {name for state in STATES for name in state.checks}
    return {name: run for name, run in registered().items() if name in desired}


def _about(state: FabricState, verdict: Verdict) -> Iterable[Finding]:
    """What blocks in a state, failures first; a finding about no part counts in any."""
    for finding in verdict.blocking:
        ours = finding.check in state.checks
        if ours and (not state.parts or finding.part in ("", *state.parts)):
            yield finding


def acts(at: Position, expectation: object, document: object) -> list[Act]:
    """What the node program may do to leave this state; nothing where a person has to."""
    if at.state is None or at.state.help is None:
        return []
    return at.state.help(Expectation(expectation), StateView(document))


def patience_s(state: FabricState, deadline_s: float) -> float:
    """How long a node may stay in a state before it counts as stuck."""
    return state.share * deadline_s


def named(name: str) -> FabricState | None:
    """The state of a name; None for "done" and for what is no state."""
    return next((state for state in STATES if state.name == name), None)


def requested(expectation: object) -> dict[str, list[str]]:
    """Units and packages that the states' checks look at."""
    expect = Expectation(expectation)

    def words(name: str) -> list[str]:
        return [str(word) for word in expect.known(list, "hardware", "expect", name, "value") or []]

    services = [str(name) for name in expect.known(list, "services") or []]
    lockstep = words("driver.lockstep")
    version = expect.known(str, "driver", "version") or ""
    branch = version.split(".")[0]
    suffixed = [f"{name}-{branch}" for name in lockstep] if branch else []
    return {
        "units": sorted({*words("fabric.units"), *services}),
        "packages": sorted({*lockstep, *suffixed, "nvlsm"}),
    }


def progress(at: Position, document: object) -> str:
    """How far it is, for a person who waits: "3 of 8 GPUs completed"."""
    if at.name == "registration":
        return completed(StateView(document))
    return f"waiting for {at.state.waits_for}" if at.state else summary(document)


def completed(view: StateView) -> str:
    """How many GPUs have completed their registration with the fabric."""
    done = sum(gpu.known(int, "fabric", "state") == COMPLETED for gpu in view.known_gpus)
    return f"{done} of {len(view.known_gpus)} GPUs completed"


def summary(document: object) -> str:
    """What came up: "nvlsm up, fabric manager 580.126.20, 8 of 8 GPUs completed"."""
    view = StateView(document)
    parts = ["nvlsm up"] if view.known(bool, "fabric_manager", "nvlsm_running") else []
    for name in view.known(dict, "packages") or {}:
        version = view.known(str, "packages", name, "version")
        if name.startswith("nvidia-fabricmanager") and version is not None:
            parts.append(f"fabric manager {version.rpartition('-')[0] or version}")
    return ", ".join([*parts, completed(view) if _has_fabric(view) else _gpus(view)])


def _has_fabric(view: StateView) -> bool:
    """Whether any GPU speaks of a fabric; one by itself says that it is not supported (0)."""
    return any(gpu.known(int, "fabric", "state") for gpu in view.known_gpus)


def _gpus(view: StateView) -> str:
    count = len(view.known_gpus)
    return f"{count} GPU{'' if count == 1 else 's'} without a fabric"


def hidden(expectation: object, document: object) -> str:
    """What was passed over because the host does not show it; empty where nothing was."""
    nics = StateView(document).known_items("pci", "nics")
    try:
        asked_for = Expectation(expectation).bring_up() == "judged"
    except Unexpected:
        return ""
    shown = any(nic.known(bool, "switch_management") for nic in nics)
    bare = nics and all(nic.known(bool, "vital_product_data") is False for nic in nics)
    return "management ports are unknown here" if asked_for and bare and not shown else ""


def stuck_line(at: Position, document: object, evidence: Iterable[str] = ()) -> str:
    """One line: state, what was observed, what to do."""
    if at.state is None:
        return ""
    observed = at.observed.summary if at.observed else "nothing was judged"
    return f"stuck at {at.name}: {'; '.join([observed, *evidence])} -> {_todo(at, document)}"


def _todo(at: Position, document: object) -> str:
    """The action and the remedy: the state's, or what the judgement says of a fault of all GPUs."""
    state, observed = at.state, at.observed
    if state is None or (observed and observed.status is Status.UNMEASURED):
        return f"{Action.MONITOR.word}: repair the reading"
    if observed and (observed.remedy or (observed.subject == "node" and observed.subjects)):
        return f"{observed.action.word}: {advice.of(observed)}"
    kernel = StateView(document).known(str, "host", "kernel") or "$(uname -r)"
    action = max(state.action, observed.action) if observed else state.action
    return f"{action.word}: {state.remedy.format(kernel=kernel)}"


def describe(
    at: Position, expectation: object, document: object, evidence: Iterable[str] = ()
) -> dict[str, Any]:
    """What the node program says of a position, as one JSON object.

    {"state", "check", "progress", "line", "hidden"}: `line` is what to say should it stay there.
    """
    return {
        "state": at.name,
        "check": at.observed.check if at.observed else "",
        "progress": progress(at, document),
        "line": stuck_line(at, document, evidence),
        "hidden": hidden(expectation, document),
    }
