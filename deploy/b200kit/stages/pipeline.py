"""The order of the pipeline: the one place where it stands. deploy/b200.py runs STEPS.

To add a stage, add its step here: from then on it is rendered, observed, planned and run.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from b200kit.converge.stage import DesiredState, Stage, nominal_layout
from b200kit.run.node import Node
from b200kit.stages import (
    bandwidth,
    clock_and_logs,
    containers,
    driver,
    events,
    fabric,
    firewall,
    gate,
    gateway,
    host,
    monitoring,
    passport,
    served,
    serving,
    settings,
    smoke,
    storage,
    warmup,
    watchdog,
    weights,
)


class PipelineCheckpoint(Enum):
    """What happens between stages; *text* says it for the reference page."""

    READY = "ready", "Judge what may stop a run halfway; a node that is not ready is not changed."
    REBOOT = "reboot", "Reboot once when something waits for a reboot; nothing otherwise."
    GATE = "gate", "Judge the node; one that is not proven leaves the run and stops serving."
    PROOF = "proof", "Judge what only a node that serves shows; one that fails stops serving."

    def __init__(self, title: str, text: str) -> None:
        self.title = title
        self.text = text


@dataclass(frozen=True)
class PipelineStep:
    """One step: its title in pyinfra's output, and the stage or the checkpoint."""

    title: str
    run: Stage | PipelineCheckpoint

    @property
    def name(self) -> str:
        """The name of the stage or checkpoint in messages, reports and docs/reference/stages.md."""
        return self.run.name if isinstance(self.run, Stage) else self.run.title


SERVING = (
    PipelineStep("Serving", serving.STAGE),
    PipelineStep("Warm-up", warmup.STAGE),
    PipelineStep("Gateway", gateway.STAGE),
    PipelineStep("Events", events.STAGE),
    PipelineStep("Watchdog", watchdog.STAGE),
    PipelineStep("Monitoring", monitoring.STAGE),
)
"""From a proven node to one that answers requests."""

MEASURING = (
    PipelineStep("Smoke", smoke.STAGE),
    PipelineStep("Proof", PipelineCheckpoint.PROOF),
)
"""From a node that answers requests to one whose answers were measured."""

AHEAD = (PipelineStep("Weights", weights.STAGE), PipelineStep("Model", weights.READY))
"""What takes longest is fetched while the node still serves, before it leaves for a change."""

STEPS = (
    PipelineStep("Ready", PipelineCheckpoint.READY),
    PipelineStep("Host", host.STAGE),
    PipelineStep("Settings", settings.STAGE),
    PipelineStep("Clock and logs", clock_and_logs.STAGE),
    PipelineStep("Storage", storage.STAGE),
    PipelineStep("Firewall", firewall.STAGE),
    AHEAD[0],
    PipelineStep("Driver", driver.STAGE),
    PipelineStep("Reboot", PipelineCheckpoint.REBOOT),
    PipelineStep("Fabric", fabric.STAGE),
    PipelineStep("Containers", containers.STAGE),
    PipelineStep("Gate unit", gate.STAGE),
    PipelineStep("Bandwidth", bandwidth.STAGE),
    PipelineStep("Gate", PipelineCheckpoint.GATE),
    PipelineStep("Passport", passport.STAGE),
    AHEAD[1],
    *SERVING,
    *MEASURING,
    PipelineStep("Served", served.STAGE),
)


def desired(node: Node, before: PipelineCheckpoint | None = None) -> list[DesiredState]:
    """What each stage wants of a node, by a layout that names the right paths before any GPU."""
    layout = nominal_layout(node)
    return [stage.desired(node, layout) for stage in stages(before)]


def stages(before: PipelineCheckpoint | None = None) -> list[Stage]:
    """The stages in the order they run; only those *before* a checkpoint where one is given."""
    found: list[Stage] = []
    for step in STEPS:
        if step.run is before:
            break
        if isinstance(step.run, Stage):
            found.append(step.run)
    return found
