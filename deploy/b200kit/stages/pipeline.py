"""The stages in the order they run."""

from __future__ import annotations

from b200kit.stages import (
    bandwidth,
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
    watchdog,
    weights,
)
from b200kit.stages.serving import replica_units

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
    watchdog.STAGE,
    smoke.STAGE,
)

__all__ = ["BEFORE_REBOOT", "STAGES", "replica_units"]
