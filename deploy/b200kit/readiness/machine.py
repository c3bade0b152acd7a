"""The node's system, processor, Python, machine, clock, GPUs on the bus and power limits. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from b200kit.catalog.hardware import gpu_name
from b200kit.node.checks.findings import passed
from b200kit.node.checks.gpu.power import cap_of
from b200kit.node.checks.host.machine import machine as as_judged
from b200kit.node.lib import timestamp
from b200kit.node.lib.readings import is_digits
from b200kit.node.state.expectation import Expectation, Unexpected
from b200kit.node.state.machine_kind import CONTAINERS
from b200kit.node.state.verdict import Finding
from b200kit.node.state.view import StateView
from b200kit.readiness.findings import note, refused
from b200kit.stages.support import operating_systems


def limits(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every GPU takes the power limit that is asked for, as far as a driver is there to say."""
    cap = cap_of(expect)
    if cap is None:
        yield passed("no power limit is asked for")
        return
    found = []
    for gpu in state.known_gpus:
        lowest, highest = gpu.reading("power_min_mw"), gpu.reading("power_max_mw")
        below = isinstance(lowest, int) and cap.value < lowest
        if below or (isinstance(highest, int) and cap.value > highest):
            takes = f"{lowest} to {highest} mW"
            summary = f"{gpu.subject} takes {takes}, and {cap.text} are asked for"
            remedy = "set settings.power_limit_w to what every GPU takes"
            found.append(refused(summary, takes, cap.text, remedy))
    yield from found or [passed(f"no GPU is known not to take a limit of {cap.text}")]


def gpus(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The PCI bus shows the GPUs of the inventory's hardware: as many, and no others.

    A node that was deployed and lost some of them is the gate's to judge, which ends what it serves
    and says what to do about each.
    """
    ids, count = expect.words("pci.ids"), expect.gpu_count()
    name = expect.text("hardware", "name")
    found = Counter(
        f"{gpu.text('vendor')}:{gpu.text('device')}" for gpu in state.items("pci", "gpus")
    )
    seen = (
        ", ".join(f"{number} x {gpu_name(kind)}" for kind, number in sorted(found.items()))
        or "no GPU"
    )
    wanted = f"{count} x {' or '.join(map(gpu_name, ids.value))}"
    summary = f"the PCI bus shows {seen}, and {name} has {wanted}"
    right = sum(found[kind] for kind in ids.value)
    others = found.total() - right
    if right == count and not others:
        yield passed(f"the PCI bus shows the GPUs of {name}: {seen}")
    elif right < count and not others and expect.flag("ready", "deployed"):
        yield note(f"{summary}: the gate judges what was deployed", seen)
    else:
        lost = right and not others and right < count
        remedy = (
            "power-cycle the node; if they stay away, have its GPUs seated again or replaced"
            if lost
            else "correct hardware or the node's address in the inventory, or the machine"
        )
        yield refused(summary, seen, wanted, remedy)


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
