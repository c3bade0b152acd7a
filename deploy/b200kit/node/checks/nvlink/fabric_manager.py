"""How the fabric manager is set up, and the subnet manager it needs on NVLink 5."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, passed, unread
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unmeasured

MODES = {1: "shared NVSwitch", 2: "vGPU"}
"""FABRIC_MODE in fabricmanager.cfg besides 0, which is bare metal."""


@check("fabric.mode")
def mode(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The fabric manager is set up for bare metal; otherwise GPUs wait for a partition."""
    wanted = expect.hardware("fabric.mode")
    seen = state.number("fabric_manager", "mode")
    if state.is_null("fabric_manager", "mode"):
        yield unread("FABRIC_MODE", Unmeasured("no fabricmanager.cfg names it"))
    elif isinstance(seen, Unmeasured):
        yield unread("FABRIC_MODE", seen)
    elif seen != wanted.value:
        name = MODES.get(seen, "unknown")
        summary = f"FABRIC_MODE is {seen} ({name}) in fabricmanager.cfg, bare metal needs 0"
        yield failed(summary, f"FABRIC_MODE={seen}", wanted, Action.REBOOT)
    else:
        yield passed(f"FABRIC_MODE is {seen}", wanted)


@check("fabric.nvlsm")
def nvlsm(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The NVLink subnet manager runs; without it no GPU's fabric gets past in progress."""
    wanted = expect.hardware("fabric.nvlsm", bool)
    running = state.flag("fabric_manager", "nvlsm_running")
    if isinstance(running, Unmeasured):
        yield unread("whether nvlsm runs", running)
    elif running != wanted.value:
        summary = f"nvlsm {'runs' if running else 'does not run'}; the fabric manager starts it"
        yield failed(summary, f"running: {running}", wanted, Action.RESTART_SERVICE)
    else:
        yield passed("nvlsm runs as it must", wanted)
