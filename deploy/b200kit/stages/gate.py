"""Gate: what the node is judged by, laid down on the node, so that boot and controller judge alike.

The judgement itself is an operation of its own (b200kit/operations/steps.py): it drops a red node
from the run before any stage that serves.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from b200kit.catalog import hardware
from b200kit.converge.stage import Change, DesiredState, Stage, converge, unavailable
from b200kit.node.host import settings_table
from b200kit.node.placement.layout import Replica
from b200kit.node.state import drift
from b200kit.node.state.drift import File, NodeUnit
from b200kit.node.state.expectation import PATH as EXPECT
from b200kit.quality import kept as quality
from b200kit.run.node import Node
from b200kit.run.render import render
from b200kit.stages import clock_and_logs, firewall, serving_units, storage, weights
from b200kit.stages.support.driver_set import stack
from b200kit.stages.support.managed_settings import table_of

UNIT = "b200-gate.service"
SLURM_CHECK = "/usr/local/lib/b200kit/slurm-check"
"""What a site's slurm.conf names; without Slurm nobody runs it."""


def expectation(node: Node) -> dict[str, Any]:
    """What controller and node judge by; it holds no date, so it stays the same."""
    spec = node.spec
    document = hardware.load(spec.hardware)
    lockstep = stack(node)
    return {
        "schema": "b200kit/expect/1",
        "hardware": document,
        "driver": {
            "version": spec.driver,
            "packages": lockstep.judged(unavailable(node)),
            "left_out": lockstep.left_out(unavailable(node)),
        },
        "gpu_count": document["expect"]["gpu_count"]["value"],
        "services": list(lockstep.units),
        "waivers": [waiver.model_dump() for waiver in spec.waivers],
        "clock_synchronized": spec.clock_synchronized,
        "settings": settings_table.expected(table_of(spec), spec.settings),
        "passport": spec.passport,
        "bandwidth": spec.bandwidth,
        "container_runtimes": list(spec.container_runtimes),
        "automatic": {
            "units": watched(node),
            "sources": [each.url for each in spec.repositories],
        },
        "bring_up": "judged",
        "unfinished": "judged",
        "quarantine": "judged",
        **clock_and_logs.expected(node),
        **storage.expected(node),
        **firewall.expected(node),
        **weights.expected(node),
        **quality.expected(node),
    }


def watched(node: Node) -> list[str]:
    """Services that nothing but b200kit may restart."""
    units = [*stack(node).units, *serving_units.units(node)]
    return [unit for unit in units if unit.endswith(".service")]


def desired(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """The expectation and the unit that judges by it at every boot, before anything serves."""
    del layout
    unit = render("systemd/b200-gate.service.j2", spec=node.spec, expect=EXPECT)
    # A renewal is for the run that asks for it: at a later boot a swapped GPU must be seen.
    kept = {**expectation(node), "passport": "keep"}
    content = json.dumps(kept, indent=1, sort_keys=True).encode()
    return DesiredState(
        files=(
            File(EXPECT, content),
            File(SLURM_CHECK, render("host/slurm-check.j2", expect=EXPECT), 0o755),
            File(f"/etc/systemd/system/{UNIT}", unit, notify=("daemon-reload",)),
        ),
        units=(NodeUnit(UNIT, active=False),),
        observe_request={
            "automatic": {"units": watched(node), "packages": [*stack(node).judged()]},
        },
    )


def plan(node: Node) -> list[Change]:
    """Lay the gate down; it is started by the serving units that require it."""
    target = desired(node, ())
    return [*_outdated(node, target), *converge(node, target)]


def _outdated(node: Node, target: DesiredState) -> list[Change]:
    """End a judgement of this boot that is still at work by an expectation that is about to change.

    After a reboot into another driver it waits for the old one; a replica started meanwhile would
    join it and fail with it.
    """
    state = node.state or {}
    expect = [file for file in target.files if file.path == EXPECT]
    units = state.get("units")
    unit = units.get(UNIT) if isinstance(units, dict) else None
    at_work = isinstance(unit, dict) and unit.get("active") == "activating"
    if not (at_work and drift.changed_files(expect, state, node.nonce)):
        return []
    what = f"stop {UNIT}, which judges by what was asked before"
    return [Change(what, lambda node: serving_units.stop(node, [UNIT]))]


def withdraw(node: Node) -> list[str]:
    """Stop what serves on a node that is not proven; returns the units stopped."""
    stopped = serving_units.running(node, serving_units.units(node))
    serving_units.stop(node, stopped)
    return stopped


STAGE = Stage(name="gate unit", desired=desired, plan=plan)
