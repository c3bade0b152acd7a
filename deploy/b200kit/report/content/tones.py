"""The colours of a node's connections: what the judgement found of each, and nothing else. Pure.

A check that does not apply to the hardware finds nothing wrong; one that nobody ran leaves its
connections unknown.
"""

from __future__ import annotations

from collections import defaultdict

from b200kit.node.checks.judge import judge
from b200kit.node.lib.documents import unstructure
from b200kit.report.content.graph import BAD, GOOD, UNKNOWN, worst
from b200kit.report.document import items, mapping, read

LINKS = (
    "nvlink.links", "nvlink.speed", "nvlink.version", "nvlink.remote", "nvlink.ber",
    "nvlink.errors", "nvlink.recovery",
)  # fmt: skip
FABRIC = ("fabric.state", "fabric.status", "fabric.health", "fabric.mask")
LANE = ("pcie.width", "pcie.max-width", "pcie.generation", "pcie.bus")
PATH = ("pcie.path",)
NUMA = ("numa.gpu",)
COUNT = ("identity.pci-count", "identity.nvml-count")
PEERS = ("p2p.nvlink", "p2p.read", "p2p.write")
_TONES = {"pass": GOOD, "fail": BAD}


class Tones:
    """What a verdict says of each part, by the checks that are about it."""

    def __init__(self, verdict: object) -> None:
        self._found: dict[str, list[tuple[str, frozenset[str]]]] = defaultdict(list)
        for check in mapping(read(verdict, "not_applicable")):
            self._found[check].append((GOOD, frozenset()))
        for finding in items(read(verdict, "findings")):
            tone = _TONES.get(str(read(finding, "status")), UNKNOWN)
            about = {str(read(finding, "subject")), *map(str, items(read(finding, "subjects")))}
            self._found[str(read(finding, "check"))].append((tone, frozenset(about)))

    def of(self, checks: tuple[str, ...], *names: str) -> str:
        """The tone of a part by its names; unknown where none of the checks was run."""
        found = [entry for check in checks for entry in self._found.get(check, ())]
        # What is of the node and names no part is of each.
        mine = (about == {"node"} or about & {*names} for _, about in found)
        return worst(
            *(tone if is_mine else GOOD for (tone, _), is_mine in zip(found, mine, strict=True))
        )


def tones_of(state: object, expectation: object, verdict: object) -> Tones:
    """By the verdict of a record; where it has none, by what the judgement says of its state."""
    judged = bool(items(read(verdict, "findings")))
    return Tones(verdict if judged else unstructure(judge(expectation, state)))
