"""The network between the nodes of a run: measured once for all of them, judged for each.

pyinfra brings every node through one operation before the next one begins. So the first node that
comes here measures for all whose own tests were sealed; the others wait for it and take its result.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field

from b200kit.acceptance.network import run as network
from b200kit.node.lib.signature import ACCEPTANCE
from b200kit.node.state.verdict import Finding, Status, Verdict
from b200kit.run import host_keys, signed_proof
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import RemoteError

_LEAST = 2


def allowed(node: Node) -> str:
    """The lines of allowed signers of a node's acceptance runs. Raises ValueError."""
    keys = host_keys.of(node.connected().host).keys()
    return signed_proof.signers(node.name, keys, ACCEPTANCE)


@dataclass
class Between:
    """The nodes that are measured, and what that came to."""

    nodes: dict[str, Node] = field(default_factory=dict)
    found: Verdict | None = None
    error: str = ""
    _alone: threading.Lock = field(default_factory=threading.Lock)

    def join(self, node: Node) -> None:
        """Take a node in whose rails the inventory declares."""
        if node.spec.rails:
            self.nodes[node.name] = node

    @property
    def is_wanted(self) -> bool:
        """Whether there is a network to measure."""
        return len(self.nodes) >= _LEAST

    def measure(self, node: Node) -> None:
        """Measure, or wait for who does. Raises StageFailed with the same words for all."""
        with self._alone:
            if self.found is None and not self.error:
                try:
                    done = network.measure([*self.nodes.values()], lambda t: node.say("network", t))
                    network.verified(done.path, lambda name: allowed(self.nodes[name]))
                    self.found = done.verdict
                except (RemoteError, OSError, ValueError) as error:
                    self.error = f"the network is not measured: {error}"
        if self.error:
            raise StageFailed(self.error)

    def of(self, name: str) -> tuple[Finding, ...]:
        """What was found that concerns a node."""
        findings = self.found.findings if self.found and name in self.nodes else ()
        return concerning(findings, name, self.nodes)


def concerning(
    findings: tuple[Finding, ...], name: str, every: Collection[str]
) -> tuple[Finding, ...]:
    """Findings about a node or about nobody; a rail that failed is theirs who are to blame."""
    blamed = any(one.check == "network.blame" and one.status is Status.FAIL for one in findings)

    def concerns(one: Finding) -> bool:
        if named := {*one.subjects, *one.subject.split()} & {*every}:
            return name in named
        is_of_rail = one.check == "network.traffic" and one.status is Status.FAIL
        return not (blamed and is_of_rail)

    return tuple(filter(concerns, findings))


BETWEEN = Between()
"""Of this run."""
