"""How the fabric manager is set up, what it needs on NVLink 5, and whether GPUs outlived one."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, noted, passed
from b200kit.node.checks.judge import check
from b200kit.node.checks.serving.units import NOT_ASKED, which_run
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
        yield failed(summary, f"FABRIC_MODE={observed}", expected, Action.NONE)
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


@check("nvls.manager")
def restarted(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The fabric manager did not start beside what serves: GPUs stay registered with the old one.

    Only a start that began after an engine's is known to be such: the engine began on GPUs that had
    been registered. All other readings are good then, and multicast (NVLS) is not. A note where the
    data of the hardware has it by inference alone.
    """
    if expect.requested(dict, "placement") is None:
        yield passed(NOT_ASKED)
        return
    expected = expect.hardware("nvls.manager", bool)
    inferred = expect.at("hardware", "expect", "nvls.manager").known(str, "kind") == "inferred"
    running, found = which_run(sorted(expect.names("placement")), state)
    for manager in map(str, expect.words("fabric.units").value):
        older = [unit for unit in running if 0 < _began(state, unit) < _began(state, manager)]
        if older:
            summary = f"{manager} was started beside {', '.join(older)}: NVLS may not work any more"
            read = f"{manager} began {_began(state, manager) / 1e6:.0f} s after the boot"
            yield (
                noted(f"{summary} (reported of Hopper, inferred here)", None, read, expected)
                if inferred
                else failed(summary, read, expected, Action.RESET_GPU)
            )
            return
    yield from found or [passed("the fabric manager is older than what serves", expected)]


def _began(state: StateView, unit: str) -> int:
    """When its last start began; 0 for none, and in a document that does not have it."""
    reading = state.at("units", unit)
    return 0 if reading.is_missing("started_us") else int(reading.number("started_us"))
