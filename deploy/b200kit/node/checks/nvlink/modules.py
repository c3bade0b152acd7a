"""Kernel modules the fabric needs, and those that must not be there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from b200kit.node.checks.findings import failed, passed, unread
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unmeasured


@check("modules.loaded")
def loaded(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Fabric manager reaches the switches through InfiniBand user MAD devices."""
    expected = expect.words("modules.loaded")
    found = []
    for name in expected.value:
        reading = state.at("modules", name).raw()
        if isinstance(reading, Unmeasured):
            found.append(replace(unread(f"whether module {name} is loaded", reading), part=name))
        elif reading is None:
            summary = f"kernel module {name} is not loaded; fabric manager needs it"
            read = f"{name} not loaded"
            found.append(failed(summary, read, expected, Action.RESTART_SERVICE, part=name))
    yield from found or [passed(f"modules {', '.join(expected.value)} are loaded", expected)]


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
