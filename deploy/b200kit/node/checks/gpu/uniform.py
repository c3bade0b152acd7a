"""The GPUs of a node are alike: one slow or oddly flashed GPU sets the pace of a group."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from b200kit.node.checks.findings import failed, noted, passed, rule, unread
from b200kit.node.checks.judge import Check, check
from b200kit.node.checks.node_scale import board_of, in_words
from b200kit.node.checks.nvlink import cut
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView, Unread

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
ALIKE_ALL = rule("one value", "the GPUs of a node must be alike")


PART_NUMBER = re.compile(r"(692|965)-([0-9A-Z]{5})-[0-9A-Z]{4}-[0-9A-Z]{3}")
"""A board part number of a GPU module: a prefix, and the board."""
FABRIC = ("clique", "cluster")
"""Which of them are of the fabric, so that GPUs of two values cannot reach each other."""


def make(identifier: str, path: str, name: str) -> Check:
    """The check that a reading is the same on all GPUs; those with the rarer values are named."""

    def run(expect: Expectation, state: StateView) -> Iterator[Finding]:
        gpus, of = state.gpus, dict[str, list[GpuView]]()
        for gpu in gpus:
            try:
                of.setdefault(str(gpu.raw(*path.split("."))), []).append(gpu)
            except Unread as error:
                yield unread(error, gpu.subject, gpu.part)
        if not of:
            return
        usual = max(of, key=lambda value: len(of[value]))
        expected = rule(f"{usual} as on {len(of[usual])} GPUs", "the GPUs of a node must be alike")
        if len(of[usual]) == len(gpus):
            yield passed(f"one {name} on all GPUs: {usual}", expected)
        elif len(of) == 2 and is_one_board(of, gpus):
            yield noted(
                f"two {name}s of one board: {' | '.join(of)}", None, " | ".join(of), ALIKE_ALL
            )
        elif identifier in FABRIC and cut.is_cut([*of.values()]):
            yield severed(name, of, board_of(expect))
        elif len(of) > 1 and 2 * len(of[usual]) <= sum(map(len, of.values())):
            yield differing(name, of)
        else:
            yield from odd(name, of, usual, expected)

    run.__doc__ = f"All GPUs have the same {name}."
    return run


def severed(name: str, of: dict[str, list[GpuView]], board: str) -> Finding:
    """The finding where groups of GPUs are in fabrics of their own."""
    text = cut.in_parts([[gpu.subject for gpu in gpus] for gpus in of.values()])
    summary, read = f"{name} {' | '.join(of)}: {text}", " | ".join(of)
    found = failed(summary, read, ALIKE_ALL, Action.RESTART_SERVICE, part=board)
    return replace(found, subjects=tuple(gpu.subject for gpus in of.values() for gpu in gpus))


def differing(name: str, of: dict[str, list[GpuView]]) -> Finding:
    """The finding where no value is of most GPUs, so that none is the odd one."""
    values = [f"{value} on {in_words([g.subject for g in gpus])}" for value, gpus in of.items()]
    summary = f"the GPUs have {len(of)} values of {name}: {'; '.join(values)}"
    return failed(summary, " | ".join(of), ALIKE_ALL, Action.NONE)


def odd(
    name: str, of: dict[str, list[GpuView]], usual: str, expected: Expected
) -> Iterator[Finding]:
    """A finding for each GPU that is not as most of them."""
    for value, gpus in of.items():
        for gpu in gpus if value != usual else ():
            summary = f"{gpu.subject} has another {name} than its peers: {value}, not {usual}"
            yield failed(summary, value, expected, Action.NONE, gpu)


def is_one_board(numbers: Iterable[str], gpus: Sequence[GpuView]) -> bool:
    """Whether two part numbers name one board, 692-2G525-... and 965-2G525-..., flashed alike.

    Both stand side by side on a healthy node of H100s; what the prefixes mean is not public.
    """
    found = [match.groups() for text in numbers if (match := PART_NUMBER.fullmatch(text))]
    flashed = [{gpu.known(str, key) for gpu in gpus} for key in ("vbios", "inforom")]
    return (
        all(len(known) == 1 and None not in known for known in flashed)
        and len(found) == 2 and len({board for _, board in found}) == 1
        and {prefix for prefix, _ in found} == {"692", "965"}
    )  # fmt: skip


for _id, (_key, _name) in ALIKE.items():
    check(f"uniform.{_id}")(make(_id, _key, _name))
