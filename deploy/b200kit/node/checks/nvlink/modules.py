"""Kernel modules the fabric needs, and those that must not be there."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, passed, within
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView


@check("modules.loaded")
def loaded(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Fabric manager reaches the switches through InfiniBand user MAD devices."""
    expected = expect.words("modules.loaded")

    def check_module(name: str) -> Iterator[Finding]:
        if state.raw("modules", name) is None:
            summary = f"kernel module {name} is not loaded; fabric manager needs it"
            read = f"{name} not loaded"
            yield failed(summary, read, expected, Action.RESTART_SERVICE, part=name)

    found = [f for name in expected.value for f in within(check_module(name), part=name)]
    yield from found or [passed(f"modules {', '.join(expected.value)} are loaded", expected)]


@check("modules.absent")
def absent(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """nouveau takes the GPUs away from NVIDIA's driver."""
    unwanted = expect.words("modules.absent")

    def check_module(name: str) -> Iterator[Finding]:
        if state.raw("modules", name) is not None:
            summary = f"kernel module {name} is loaded and must not be"
            yield failed(summary, f"{name} loaded", unwanted, Action.REBOOT)

    found = [f for name in unwanted.value for f in within(check_module(name))]
    yield from found or [passed(f"modules {', '.join(unwanted.value)} are not loaded", unwanted)]
