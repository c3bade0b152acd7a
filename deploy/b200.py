"""From a bare OS to a proven, warm, measured server:  pyinfra inventories/prod.py deploy/b200.py -y

pyinfra executes this file once a host. Each line is one operation; a node that fails one leaves the
run and the others go on. Run it again and nothing changes.
"""

from __future__ import annotations

from pyinfra.context import config, host

from b200kit.operations import steps
from b200kit.operations.entry import node_of
from b200kit.stages import (
    bandwidth,
    clock_and_logs,
    containers,
    driver,
    fabric,
    firewall,
    gate,
    gateway,
    passport,
    serving,
    settings,
    smoke,
    storage,
    warmup,
    watchdog,
    weights,
)
from b200kit.stages import host as operating_system

config.REQUIRE_PYINFRA_VERSION = ">=3.10,<4"

node = node_of(host)

steps.observe(name="Observe", node=node)
steps.converge(name="Host", node=node, stage=operating_system.STAGE)
steps.converge(name="Settings", node=node, stage=settings.STAGE)
steps.converge(name="Clock and logs", node=node, stage=clock_and_logs.STAGE)
steps.converge(name="Storage", node=node, stage=storage.STAGE)
steps.converge(name="Firewall", node=node, stage=firewall.STAGE)
steps.converge(name="Weights", node=node, stage=weights.STAGE)
steps.converge(name="Driver", node=node, stage=driver.STAGE)
steps.reboot_if_needed(name="Reboot", node=node)
steps.converge(name="Fabric", node=node, stage=fabric.STAGE)
steps.converge(name="Containers", node=node, stage=containers.STAGE)
steps.converge(name="Gate unit", node=node, stage=gate.STAGE)
steps.converge(name="Bandwidth", node=node, stage=bandwidth.STAGE)
steps.require_proven(name="Gate", node=node)
steps.converge(name="Passport", node=node, stage=passport.STAGE)
steps.converge(name="Model", node=node, stage=weights.READY)
steps.converge(name="Serving", node=node, stage=serving.STAGE)
steps.converge(name="Warm-up", node=node, stage=warmup.STAGE)
steps.converge(name="Gateway", node=node, stage=gateway.STAGE)
steps.converge(name="Canary", node=node, stage=watchdog.STAGE)
steps.converge(name="Smoke", node=node, stage=smoke.STAGE)
steps.require_served_well(name="Proof", node=node)
steps.conclude(name="Live", node=node)
