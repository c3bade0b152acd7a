"""Kernel modules the fabric needs, and those that must not be there."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.core.checks.tools import failed, passed, unread
from deploy.core.expectation import Expectation
from deploy.core.judge import check
from deploy.core.state import StateView, Unmeasured
from deploy.core.verdict import Action, Finding


@check("modules.loaded")
def loaded(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Fabric manager reaches the switches through InfiniBand user MAD devices."""
    wanted = expect.words("modules.loaded")
    readings = {name: state.at("modules", name).raw() for name in wanted.value}
    unknown = {name: r for name, r in readings.items() if isinstance(r, Unmeasured)}
    found = [unread(f"whether module {name} is loaded", r) for name, r in unknown.items()]
    missing = ", ".join(name for name, reading in readings.items() if reading is None)
    if missing:
        summary = (
            f"kernel modules not loaded: {missing}; fabric manager needs them for the switches"
        )
        found.append(failed(summary, f"not loaded: {missing}", wanted, Action.RESTART_SERVICE))
    yield from found or [passed(f"modules {', '.join(readings)} are loaded", wanted)]


@check("modules.absent")
def absent(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """nouveau takes the GPUs away from NVIDIA's driver."""
    unwanted = expect.words("modules.absent")
    found = []
    for name in unwanted.value:
        reading = state.at("modules", name).raw()
        if isinstance(reading, Unmeasured):
            found.append(unread(f"whether module {name} is loaded", reading))
        elif reading is not None:
            summary = f"kernel module {name} is loaded and must not be"
            found.append(failed(summary, f"{name} loaded", unwanted, Action.REBOOT))
    yield from found or [passed(f"modules {', '.join(unwanted.value)} are not loaded", unwanted)]
