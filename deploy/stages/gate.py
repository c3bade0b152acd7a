"""Gate: what the node is judged by, laid down on the node, so that boot and controller judge alike.

The judgement itself is an operation of its own (deploy/operations.py): it drops a red node from the
run before any stage that serves.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from deploy import hardware
from deploy.core.drift import File, Unit
from deploy.core.layout import Replica
from deploy.render import render
from deploy.run import Node
from deploy.stages import driver, gateway, serving
from deploy.stages.base import Change, Stage, Wanted, converge

EXPECT = "/etc/b200kit/expect.json"
UNIT = "b200-gate.service"


def expectation(node: Node) -> dict[str, Any]:
    """What controller and node judge by; it holds no date, so it stays the same."""
    spec = node.spec
    document = hardware.load(spec.hardware)
    return {
        "schema": "b200kit/expect/1",
        "hardware": document,
        "driver": {
            "version": spec.driver,
            "packages": {package.name: package.version for package in driver.lockstep(spec.driver)},
        },
        "gpu_count": document["expect"]["gpu_count"]["value"],
        "services": list(driver.UNITS),
        "waivers": [asdict(waiver) for waiver in spec.waivers],
        "clock_synchronized": spec.clock_synchronized,
        "kernel": spec.kernel_settings,
        "passport": spec.passport,
        "bandwidth": spec.bandwidth,
    }


def wanted(node: Node, layout: Sequence[Replica]) -> Wanted:
    """The expectation and the unit that judges by it at every boot, before anything serves."""
    del layout
    unit = render("systemd/b200-gate.service.j2", spec=node.spec, expect=EXPECT)
    # A renewal is for the run that asks for it: at a later boot a swapped GPU must be seen.
    kept = {**expectation(node), "passport": "keep"}
    content = json.dumps(kept, indent=1, sort_keys=True).encode()
    return Wanted(
        files=(
            File(EXPECT, content),
            File(f"/etc/systemd/system/{UNIT}", unit, then=("daemon-reload",)),
        ),
        units=(Unit(UNIT, active=False),),
    )


def plan(node: Node) -> list[Change]:
    """Lay the gate down; it is started by the serving units that require it."""
    return converge(node, wanted(node, ()))


def running(node: Node, names: Sequence[str]) -> list[str]:
    """Those of some units that run, for all that is known: what was not read is taken to run."""
    seen = (node.state or {}).get("units")
    units = seen if isinstance(seen, dict) and "unmeasured" not in seen else None
    return [name for name in names if units is None or _may_run(units.get(name))]


def _may_run(reading: object) -> bool:
    if reading is None:
        return False
    active = reading.get("active") if isinstance(reading, dict) else None
    return active not in ("inactive", "failed")


def withdraw(node: Node) -> list[str]:
    """Stop what serves on a node that is not proven; returns the units stopped."""
    replicas = [*serving.replica_units(node), *serving.surplus_units(node)]
    stopped = running(node, [gateway.UNIT, serving.TARGET, *replicas])
    if stopped:
        node.connected().run(f"systemctl stop {' '.join(stopped)}")
    return stopped


STAGE = Stage(name="gate unit", wanted=wanted, plan=plan)
