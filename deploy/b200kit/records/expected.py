"""What a node is judged by where there is no inventory: the data of its hardware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from b200kit.catalog import hardware, settings
from b200kit.catalog.recognised import on_bus
from b200kit.node.checks.judge import DECIDES, judge, schema_of
from b200kit.node.host import settings_table
from b200kit.node.lib import timestamp
from b200kit.node.state import expectation as expectations
from b200kit.node.state.verdict import Status
from b200kit.node.state.view import SCHEMA, StateView

WITHOUT_DEPLOYMENT = "not applicable without a deployment"
"""Why a check is left out that compares a node with what an inventory asks for."""


def by_hardware(name: str) -> dict[str, Any]:
    """An expectation from hardware data alone: any driver the hardware takes, no services.

    Clock and settings are judged, these by their defaults; nothing else was requested, so
    nothing else is compared.
    """
    data = hardware.load(name)
    return {
        "schema": expectations.SCHEMA,
        "hardware": data,
        "driver": None,
        "gpu_count": data["expect"]["gpu_count"]["value"],
        "services": [],
        "waivers": [],
        "clock_synchronized": True,
        "settings": settings_table.expected(settings.load(), ()),
        "passport": "keep",
        "bandwidth": "off",
    }


def by_its_gpus(state: Any, name: str | None = None) -> dict[str, Any]:
    """The same of the hardware named, or else of what the node's GPUs are; raises Unrecognised."""
    if schema_of(StateView(state)) != SCHEMA:
        name = name or hardware.names()[0]  # it is refused as a whole, by any
    return by_hardware(name or on_bus(state, hardware.machines().values()).name)


def observe_request() -> dict[str, Any]:
    """What must be asked for by name: packages that go with a driver, a deployment's mark."""
    every = (hardware.load(name)["expect"].get("driver.lockstep") for name in hardware.names())
    packages = {package for entry in every if entry for package in entry["value"]}
    return {"packages": sorted(packages), "files": [expectations.PATH]}


def without_deployment(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """An expectation for a node that nobody need have deployed, as it was observed.

    What an inventory would ask for is asked for nowhere, and a check that compares with that alone
    would pass over anything. Those are found by what they do, and left out of the verdict by name:
    a check that passes over the same observation with nothing read in it looked at nothing.
    """
    asked = {
        **by_hardware(name),
        "today": timestamp.today(),
        "clock_synchronized": False,
        "settings": {},
        "unfinished": "judged",
        "quarantine": "judged",
    }
    unread = {key: {"unmeasured": "not looked at"} for key in state}
    blind = judge(asked, {**unread, "schema": state.get("schema")})
    idle = {f.check for f in blind.findings if f.status is Status.PASS} - {DECIDES}
    data = asked["hardware"]
    left_out = {**dict.fromkeys(sorted(idle), WITHOUT_DEPLOYMENT), **data.get("not_applicable", {})}
    return {**asked, "hardware": {**data, "not_applicable": left_out}}
