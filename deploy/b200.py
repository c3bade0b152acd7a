"""From a bare OS to a proven, warm, measured server:  pyinfra inventories/prod.py deploy/b200.py -y

pyinfra executes this file once a host. Each line is one operation; a node that fails one leaves the
run and the others go on. Run it again and nothing changes.
"""

from __future__ import annotations

from pyinfra.context import config, host

from deploy import operations
from deploy.entry import node_of
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
    passport,
    serving,
    settings,
    smoke,
    storage,
    warmup,
    weights,
)
from deploy.stages import host as operating_system

config.REQUIRE_PYINFRA_VERSION = ">=3.10,<4"

node = node_of(host)

operations.observe(name="Observe", node=node)
operations.converge(name="Host", node=node, stage=operating_system.STAGE)
operations.converge(name="Settings", node=node, stage=settings.STAGE)
operations.converge(name="Clock and logs", node=node, stage=clock_and_logs.STAGE)
operations.converge(name="Storage", node=node, stage=storage.STAGE)
operations.converge(name="Firewall", node=node, stage=firewall.STAGE)
operations.converge(name="Weights", node=node, stage=weights.STAGE)
operations.converge(name="Driver", node=node, stage=driver.STAGE)
operations.reboot_if_needed(name="Reboot", node=node)
operations.converge(name="Fabric", node=node, stage=fabric.STAGE)
operations.converge(name="Containers", node=node, stage=containers.STAGE)
operations.converge(name="Gate unit", node=node, stage=gate.STAGE)
operations.converge(name="Bandwidth", node=node, stage=bandwidth.STAGE)
operations.require_proven(name="Gate", node=node)
operations.converge(name="Passport", node=node, stage=passport.STAGE)
operations.converge(name="Model", node=node, stage=weights.READY)
operations.converge(name="Serving", node=node, stage=serving.STAGE)
operations.converge(name="Warm-up", node=node, stage=warmup.STAGE)
operations.converge(name="Gateway", node=node, stage=gateway.STAGE)
operations.converge(name="Canary", node=node, stage=canary.STAGE)
operations.converge(name="Smoke", node=node, stage=smoke.STAGE)
operations.require_served_well(name="Proof", node=node)
operations.conclude(name="Live", node=node)
