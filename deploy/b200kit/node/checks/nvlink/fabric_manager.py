"""How the fabric manager is set up, and the subnet manager it needs on NVLink 5."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, passed
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unread

MODES = {1: "shared NVSwitch", 2: "vGPU"}
"""FABRIC_MODE in fabricmanager.cfg besides 0, which is bare metal."""


@check("fabric.mode")
def mode(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The fabric manager is set up for bare metal; otherwise GPUs wait for a partition."""
    expected = expect.hardware("fabric.mode")
    if state.is_null("fabric_manager", "mode"):
        raise Unread("FABRIC_MODE", "no fabricmanager.cfg names it")
    observed = state.number("fabric_manager", "mode")
    if observed != expected.value:
        name = MODES.get(observed, "unknown")
        summary = f"FABRIC_MODE is {observed} ({name}) in fabricmanager.cfg, bare metal needs 0"
        yield failed(summary, f"FABRIC_MODE={observed}", expected, Action.REBOOT)
    else:
        yield passed(f"FABRIC_MODE is {observed}", expected)


@check("fabric.nvlsm")
def nvlsm(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The NVLink subnet manager runs; without it no GPU's fabric gets past in progress."""
    expected = expect.hardware("fabric.nvlsm", bool)
    running = state.flag("fabric_manager", "nvlsm_running")
    if running != expected.value:
        summary = f"nvlsm {'runs' if running else 'does not run'}; the fabric manager starts it"
        yield failed(summary, f"running: {running}", expected, Action.RESTART_SERVICE)
    else:
        yield passed("nvlsm runs as it must", expected)
