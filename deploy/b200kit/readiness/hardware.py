"""The GPUs on the PCI bus beside those of the inventory's hardware; no driver is needed. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from b200kit.catalog.hardware import gpu_name
from b200kit.node.checks.findings import passed
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Finding
from b200kit.node.state.view import StateView
from b200kit.readiness.findings import note, refused


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
