"""A bare node: the GPUs are there and no driver is, so it is judged by what needs none. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from b200kit.node.checks.judge import judge, not_applicable, registered
from b200kit.node.state.expectation import PATH, Expectation
from b200kit.node.state.verdict import Verdict
from b200kit.node.state.view import StateView, Unread

BARE = "bare"
"""The outcome of a bare node in whose hardware nothing is wrong, as far as that shows already."""
WITHOUT_DRIVER = "not applicable without a driver"
"""Why the other checks are left out."""
NO_DRIVER = "the GPUs are there, and no driver is installed yet"
HARDWARE = (
    "identity.machine", "identity.device", "identity.pci-count",
    "pcie.bus", "pcie.path", "pcie.speed", "pcie.payload", "pcie.aer",
    "numa.cpus", "numa.sockets", "numa.gpu", "numa.local", "host.kernel", "host.root",
)  # fmt: skip
"""The checks of what a machine is made of that ask neither the driver nor what comes with it."""


def is_bare(state: StateView) -> bool:
    """Whether a node is known to have no driver, installed or loaded, and was never deployed."""
    try:
        return (
            state.is_null("modules", "nvidia")
            and not state.get(dict, "readiness", "driver", "files")
            and state.is_null("files", PATH)
            and bool(state.items("pci", "gpus"))
        )
    except Unread:
        return False


def judged(expectation: Mapping[str, object], state: object) -> Verdict | None:
    """The verdict on a bare node's hardware; None for a node that is not bare."""
    if not is_bare(StateView(state)):
        return None
    every = registered()
    verdict = judge(expectation, state, {name: every[name] for name in HARDWARE})
    left_out = dict.fromkeys(every.keys() - set(HARDWARE), WITHOUT_DRIVER)
    never = not_applicable(Expectation(expectation), every)
    return replace(verdict, not_applicable={**left_out, **never})


def outcome(verdict: Verdict) -> str:
    """How a bare node ends: bare, or what its hardware is."""
    return BARE if verdict.fit == "fit" else verdict.fit
