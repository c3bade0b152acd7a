"""The node's operating system, processor, Python, machine and clock. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from b200kit.node.checks.findings import passed
from b200kit.node.checks.host.machine import machine as as_judged
from b200kit.node.lib import timestamp
from b200kit.node.lib.readings import is_digits
from b200kit.node.state.expectation import Expectation, Unexpected
from b200kit.node.state.machine_kind import CONTAINERS
from b200kit.node.state.verdict import Finding
from b200kit.node.state.view import StateView
from b200kit.readiness.findings import note, refused
from b200kit.stages.support import operating_systems

MOST_SKEW_S = 300
"""What a node's clock may be off: certificates and signed indexes have dates."""


def system(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Operating system and processor are supported, and the system is the inventory's."""
    wanted = expect.requested(str, "ready", "system")
    document = state.value if isinstance(state.value, Mapping) else {}
    if why := operating_systems.refusal(document):
        yield refused(why, why, "a supported system", "install one of them")
    elif why := operating_systems.refusal(document, wanted):
        remedy = "correct the inventory, or install that system"
        yield refused(why, why, f"system {wanted}", remedy)
    else:
        yield passed(f"{state.reading('host', 'os', 'pretty')} is supported")


def python(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The node's Python is one that the engine's lock is for."""
    if expect.is_null("ready", "python"):
        yield passed("the engine does not need the node's Python")
        return
    versions = expect.get(list, "ready", "python", "versions")
    lock = expect.text("ready", "python", "lock")
    if not versions:
        raise Unexpected("ready.python", "the lock does not name its Python")
    running = state.text("host", "python")
    names = ", ".join(".".join(map(str, version)) for version in versions)
    if [int(part) for part in running.split(".")[:2] if is_digits(part)] in versions:
        yield passed(f"Python {running}, and {lock} is for {names}")
    else:
        summary = f"the node has Python {running}, and the engine lock {lock} is for {names}"
        remedy = "use a lock made for the node's Python, or an operating system that has the lock's"
        yield refused(summary, running, f"Python {names}", remedy)


def machine(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The hardware file is for this kind of machine; a virtual machine or container is noted."""
    if not expect.is_missing("hardware", "expect", "machine.virtual"):
        yield from (f for f in as_judged(expect, state) if f.blocks)
    kind = state.text("readiness", "virtualization")
    if kind == "none":
        yield passed("bare metal")
    elif kind in CONTAINERS:
        yield note(f"the node is a container ({kind}): its kernel is its host's", kind)
    else:
        yield note(
            f"the node is a virtual machine ({kind}): the fabric manager may run outside of it",
            kind,
        )


def clock(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The node's clock agrees with the controller's."""
    ours, theirs = expect.text("ready", "now"), state.text("taken_at")
    off = (timestamp.parse(theirs) - timestamp.parse(ours)).total_seconds()
    if abs(off) <= MOST_SKEW_S:
        yield passed("the clock agrees with the controller's")
        return
    summary = (
        f"its clock is {_span(abs(off))} {'ahead of' if off > 0 else 'behind'} the controller's"
    )
    remedy = (
        "set the clock of the one that is wrong: signatures and certificates are refused by date"
    )
    yield refused(summary, theirs, f"within {MOST_SKEW_S} s of {ours}", remedy)


def _span(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 60:.0f} minutes"
