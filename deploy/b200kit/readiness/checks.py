"""The checks of readiness by id, causes before symptoms, for b200kit/node/checks/judge.py."""

from __future__ import annotations

from b200kit.node.checks.judge import Check
from b200kit.node.checks.serving import precision
from b200kit.readiness import driver, host, machine, packages

DECIDE: dict[str, Check] = {"ready.system": machine.system, "ready.gpus": machine.gpus}
"""Whether it is the machine that the inventory means: of another one nothing else is judged."""
CHECKS: dict[str, Check] = {
    **DECIDE,
    "ready.python": machine.python,
    "ready.machine": machine.machine,
    "ready.clock": machine.clock,
    "ready.repositories": packages.repositories,
    "ready.packages": packages.candidates,
    "ready.installation": packages.installation,
    "ready.headers": driver.headers,
    "ready.secure-boot": driver.secure_boot,
    "ready.nouveau": driver.nouveau,
    "ready.driver": driver.present,
    "ready.power": machine.limits,
    "ready.room": host.room,
    "ready.ports": host.ports,
    "ready.services": host.services,
    "ready.certificates": host.certificates,
    # Known before the node is touched, and judged by the same check again at its gate.
    "precision.validated": precision.validated,
}
