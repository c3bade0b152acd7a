"""The stages in the order they run."""

from __future__ import annotations

from deploy.stages import (
    bandwidth,
    canary,
    clock_and_logs,
    containers,
    driver,
    fabric,
    firewall,
    gate,
    gateway,
    host,
    passport,
    serving,
    settings,
    smoke,
    storage,
    warmup,
    weights,
)
from deploy.stages.serving import replica_units

BEFORE_REBOOT = (
    host.STAGE,
    settings.STAGE,
    clock_and_logs.STAGE,
    storage.STAGE,
    firewall.STAGE,
    weights.STAGE,
    driver.STAGE,
)
STAGES = (
    *BEFORE_REBOOT,
    fabric.STAGE,
    containers.STAGE,
    gate.STAGE,
    bandwidth.STAGE,
    passport.STAGE,
    weights.READY,
    serving.STAGE,
    warmup.STAGE,
    gateway.STAGE,
    canary.STAGE,
    smoke.STAGE,
)

__all__ = ["BEFORE_REBOOT", "STAGES", "replica_units"]
