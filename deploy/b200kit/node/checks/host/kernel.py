"""What happened to the kernel since it booted, and whether it still lets anything be written."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, noted, passed, rule
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView

BROKEN = {5: "a bad page", 7: "an oops"}
ODD = {
    1: "a module loaded by force", 3: "a module removed by force", 4: "a machine check",
    9: "a warning", 14: "a soft lockup",
}  # fmt: skip
"""Bits (tainted-kernels.rst). The others say of what kind modules are, such as NVIDIA's."""
SOUND = rule("no oops and no bad page", "after one, nothing is certain that the kernel says")
WRITABLE = rule("rw", "ext4 and xfs stop writing after an error that they cannot mend")


@check("host.kernel")
def kernel(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The kernel had no oops and no bad page since it booted.

    Machine checks, soft lockups, warnings and modules by force are noted.
    """
    del expect
    if state.is_missing("kernel", "tainted"):
        yield passed("whether the kernel is tainted is not in this document")
        return
    mask = state.number("kernel", "tainted")
    broken, odd = (
        ", ".join(word for bit, word in table.items() if mask >> bit & 1) for table in (BROKEN, ODD)
    )
    if broken:
        summary = f"the kernel had {broken} since it booted"
        yield failed(summary, f"tainted {mask}", SOUND, Action.REBOOT)
    elif odd:
        yield noted(f"the kernel had {odd} since it booted", None, f"tainted {mask}", SOUND)
    else:
        yield passed("the kernel had no oops and no bad page", SOUND)


@check("host.root")
def root(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The root file system can be written to."""
    del expect
    if state.is_missing("host", "root_options"):
        yield passed("how the root file system is mounted is not in this document")
        return
    options = state.text("host", "root_options")
    if "ro" in options.split(","):
        summary = "the root file system is read-only: journalctl -k says why"
        yield failed(summary, options, WRITABLE, Action.REBOOT)
    else:
        yield passed("the root file system can be written to", WRITABLE)
