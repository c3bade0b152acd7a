"""The GPUs of a node are alike: one slow or oddly flashed GPU sets the pace of a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from b200kit.node.checks.findings import failed, passed, rule, unread
from b200kit.node.checks.judge import Check, check
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unmeasured

ALIKE = {
    "vbios": ("vbios", "VBIOS"),
    "inforom": ("inforom", "InfoROM"),
    "board": ("board_part_number", "board part number"),
    "capability": ("compute_capability", "compute capability"),
    "memory": ("memory_total_mib", "memory size"),
    "bar1": ("bar1_total_mib", "BAR1 aperture"),
    "pcie": ("pcie.max_generation", "PCIe generation"),
    "power": ("power_limit_mw", "power limit"),
    "default-power": ("power_default_mw", "default power limit"),
    "highest-power": ("power_max_mw", "maximum power limit"),
    "enforced-power": ("power_enforced_mw", "enforced power limit"),
    "sm-clock": ("sm_clock_max_mhz", "maximum SM clock"),
    "memory-clock": ("mem_clock_max_mhz", "maximum memory clock"),
    "clique": ("fabric.clique_id", "NVLink clique"),
    "cluster": ("fabric.cluster_uuid", "NVLink cluster"),
}
"""Check id after the dot to the reading of a GPU and what people call it."""


def make(path: str, name: str) -> Check:
    """The check that a reading is the same on all GPUs; those with the rarer values are named."""

    def run(expect: Expectation, state: StateView) -> Iterator[Finding]:
        del expect
        gpus = state.gpus()
        if isinstance(gpus, Unmeasured):
            yield unread("the GPUs", gpus)
            return
        values = [gpu.at(*path.split(".")).raw() for gpu in gpus]
        for gpu, value in zip(gpus, values, strict=True):
            if isinstance(value, Unmeasured):
                yield unread(name, value, gpu)
        measured = [str(value) for value in values if not isinstance(value, Unmeasured)]
        if not measured:
            return
        usual, count = Counter(measured).most_common(1)[0]
        expected = rule(f"{usual} as on {count} GPUs", "the GPUs of a node must be alike")
        for gpu, value in zip(gpus, values, strict=True):
            if not isinstance(value, Unmeasured) and str(value) != usual:
                summary = f"{gpu.subject} has another {name} than its peers: {value}, not {usual}"
                yield failed(summary, value, expected, Action.NONE, gpu)
        if count == len(gpus):
            yield passed(f"one {name} on all GPUs: {usual}", expected)

    run.__doc__ = f"All GPUs have the same {name}."
    return run


for _id, (_key, _name) in ALIKE.items():
    check(f"uniform.{_id}")(make(_key, _name))
