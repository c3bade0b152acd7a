"""/run/b200-lab/nvml.conf: what the NVML stand-in and the fabric manager's stand-in read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cures import Event

RUN = Path("/run/b200-lab")
FABRIC_MARKER = RUN / "fabric-completed"
PERSISTENCE_MARKER = RUN / "persistence"


def _links_off(scenario: Mapping[str, Any]) -> list[str]:
    """NVreg_NvLinkDisable=1: no link comes up on any GPU."""
    return [
        f"gpu.{gpu['index']}.links.{link}.state=0"
        for gpu in scenario["gpus"]
        for link in range(gpu["links"]["count"])
    ]


def conf(
    scenario: Mapping[str, Any],
    driver: str | None,
    parameters: Mapping[str, str],
    boots: int,
    booted: float,
    events: Sequence[Event] = (),
    now: float | None = None,
) -> str:
    """The file's text for a node whose loaded driver is `driver` (None: not loaded).

    `boots` counts this boot from 1, `booted` is its time, `events` are what happened to the node:
    faults that come `later` depend on them. What is due `now` (at the boot) holds at once.
    """
    from . import cures  # it shows what this module says

    fabric = scenario["fabric"]
    lines = [
        *([f"kernel.version={driver}"] if driver else []),
        f"fabric.marker={FABRIC_MARKER}",
        f"fabric.completes={int(fabric['completes'])}",
        f"fabric.after_s={fabric['after_s']}",
        f"fabric.manager={scenario['fabric_manager']}",
        f"persistence.daemon={scenario['persistence_daemon']}",
        f"nvlsm.dies={int(scenario['nvlsm']['dies'])}",
        f"persistence.marker={PERSISTENCE_MARKER}",
        *(f"{key}={value}" for key, value in scenario["nvml"].items()),
        *(_links_off(scenario) if parameters.get("NVreg_NvLinkDisable") == "1" else ()),
    ]
    for change in scenario["later"]:
        if boots >= change["boot"] and not cures.is_cured(change, events):
            due = int(booted) + change["after_s"]
            at = "" if due <= (booted if now is None else now) else f"@{due} "
            lines += [f"{at}{key}={value}" for key, value in change["nvml"].items()]
    return "\n".join(lines) + "\n"
