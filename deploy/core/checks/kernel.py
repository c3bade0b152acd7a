"""Kernel settings that cost latency. Not judged where the inventory says they are not the node's.

Transparent huge pages, huge pages and the memlock limit are in the report only: no source gives a
figure for them on this hardware. Neither is the IOMMU judged, as the sources contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterator

from deploy.core.checks.tools import failed, passed, unread
from deploy.core.expectation import Expectation
from deploy.core.judge import check
from deploy.core.state import StateView, Unmeasured
from deploy.core.verdict import Action, Finding

REPORTED = "reported only, as the inventory asks (kernel_settings)"


@check("kernel.numa-balancing")
def numa_balancing(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The kernel moves no memory between NUMA nodes under a running server."""
    wanted = expect.hardware("kernel.numa_balancing")
    seen = state.number("kernel", "numa_balancing")
    if not expect.kernel_judged():
        yield passed(f"NUMA balancing is {REPORTED}")
    elif state.is_null("kernel", "numa_balancing"):
        yield passed("this kernel has no NUMA balancing", wanted)
    elif isinstance(seen, Unmeasured):
        yield unread("NUMA balancing", seen)
    elif seen != wanted.value:
        summary = f"NUMA balancing is on ({seen}): set kernel.numa_balancing = {wanted.value}"
        yield failed(summary, f"kernel.numa_balancing = {seen}", wanted, Action.NONE)
    else:
        yield passed("NUMA balancing is off", wanted)


@check("kernel.governor")
def governor(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every CPU has the performance governor, where the kernel scales frequency at all."""
    wanted = expect.hardware("kernel.governor", str)
    seen = state.get(dict, "kernel", "governors")
    if not expect.kernel_judged():
        yield passed(f"CPU frequency is {REPORTED}")
        return
    if isinstance(seen, Unmeasured):
        yield unread("the CPU governors", seen)
        return
    others = {str(name): count for name, count in seen.items() if name != wanted.value}
    if others:
        told = ", ".join(f"{count} CPUs {name}" for name, count in others.items())
        summary = f"not every CPU has the {wanted.value} governor: {told}"
        yield failed(summary, told, wanted, Action.NONE)
    else:
        yield passed(f"every CPU has the {wanted.value} governor, or none is scaled", wanted)
