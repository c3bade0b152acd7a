"""The checks of readiness by id, causes before symptoms, for b200kit/node/checks/judge.py."""

from __future__ import annotations

from b200kit.node.checks.judge import Check
from b200kit.node.checks.serving import precision
from b200kit.readiness import driver, hardware, host, packages, power, system

DECIDE: dict[str, Check] = {"ready.system": system.system, "ready.gpus": hardware.gpus}
"""Whether it is the machine that the inventory means: of another one nothing else is judged."""
CHECKS: dict[str, Check] = {
    **DECIDE,
    "ready.python": system.python,
    "ready.machine": system.machine,
    "ready.clock": system.clock,
    "ready.repositories": packages.repositories,
    "ready.packages": packages.candidates,
    "ready.installation": packages.installation,
    "ready.headers": driver.headers,
    "ready.secure-boot": driver.secure_boot,
    "ready.nouveau": driver.nouveau,
    "ready.driver": driver.present,
    "ready.power": power.limits,
    "ready.room": host.room,
    "ready.ports": host.ports,
    "ready.services": host.services,
    "ready.certificates": host.certificates,
    # Known before the node is touched, and judged by the same check again at its gate.
    "precision.validated": precision.validated,
}
