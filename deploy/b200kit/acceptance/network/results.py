"""What a measurement of the network comes to: its plan, its lines, their verdict. Pure.

A run is one folder of the site, `acceptance/network-ID/`:

    plan.json                     NetworkPlan: which ports, at which addresses, for how long
    facts/NODE.{before,after}.json   what the node read of its ports
    lines.jsonl                   a FlowLine for each transfer; only ever appended to
    verdict.json                  a Verdict, computed from the files before it and nothing else
    SHA256SUMS                    of every file before it
    signatures/NODE.sig           each node's signature under SHA256SUMS

A transfer is held to the declared line rate, and to its peers: those of its rail in the plan's own
waves, which are all there before anybody is blamed. A group passes where each of its nodes reaches
the next one and the one half way round, and nothing known of two of them failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

from b200kit.acceptance import peers
from b200kit.acceptance.network import blame, facts
from b200kit.acceptance.network.blame import Blame, GroupTest
from b200kit.acceptance.network.pairs import Flow, waves
from b200kit.inventory.keys.rails import Rail
from b200kit.node.lib.documents import LARGE, Pattern, Range
from b200kit.node.state.acceptance import Outcome
from b200kit.node.state.verdict import Action, Finding, Status, Verdict

LEAST_SHARE = 0.9
"""Of the line rate that a transfer must reach: 360 of 400 Gb/s (Azure, sichek); OCI takes 384."""
LATE = 2.0
"""Times a rail's median latency: 2.7 us through two tiers, 0.3 to 0.6 a switch (inferred)."""
MARKED = 0.9
"""Share of a transfer's bytes that must arrive on its priority; the rest is other traffic's."""
_SOURCE = (
    f"b200kit rule: {LEAST_SHARE:.0%} of the declared rate, and within 5 % of the rail's peers"
)


@dataclass(frozen=True)
class PlannedNode:
    """A node: where the others reach it, and its rails as the inventory has them."""

    address: str
    rails: tuple[dict[str, Any], ...]

    @cached_property
    def declared(self) -> tuple[Rail, ...]:
        """The rails as keys."""
        return tuple(Rail(**rail) for rail in self.rails)


@dataclass(frozen=True)
class NetworkPlan:
    """What is measured: written before the first transfer, and not changed afterwards."""

    schema: ClassVar[str] = "b200kit/network-plan/1"
    most_bytes: ClassVar[int] = LARGE

    id: Annotated[str, Pattern(r"network-[A-Za-z0-9._-]{1,100}")]
    started_at: str
    seconds: Annotated[float, Range(0, above=True)]
    nodes: Mapping[str, PlannedNode]

    @property
    def rails(self) -> dict[int, dict[str, str]]:
        """Rail to node to its leaf."""
        found: dict[int, dict[str, str]] = {}
        for name, node in self.nodes.items():
            for rail in node.declared:
                found.setdefault(rail.rail, {})[name] = rail.leaf or ""
        return found

    def rail(self, node: str, number: int) -> Rail:
        """One declared port."""
        return next(rail for rail in self.nodes[node].declared if rail.rail == number)

    def waves(self) -> list[list[Flow]]:
        """The transfers that are measured whatever they show."""
        return waves({rail: [*nodes] for rail, nodes in self.rails.items()}, self.id)


@dataclass(frozen=True)
class FlowLine:
    """What came of a transfer. `gbit`, `latency_us`: None where there is no figure.

    `marked`: share of its bytes that arrived on the declared priority, by the server's counters.
    """

    schema: ClassVar[str] = "b200kit/network-line/1"

    client: str
    server: str
    rail: int
    attempt: Annotated[int, Range(1)]
    outcome: Outcome
    why: str
    gbit: float | None
    latency_us: float | None
    marked: float | None
    began_at: str

    @property
    def flow(self) -> Flow:
        """Which transfer it was."""
        return Flow(self.client, self.server, self.rail, self.attempt)


def flows_of(test: GroupTest) -> list[Flow]:
    """The transfers of a group test; alone, a port sends to itself inside its adapter."""
    nodes, attempt = test.nodes, test.repeat + 1
    count = len(nodes)
    steps = dict.fromkeys([1 % count, count // 2])
    pairs = [(nodes[i], nodes[(i + step) % count]) for step in steps for i in range(count)]
    return [Flow(client, server, test.rail, attempt) for client, server in pairs]


class Results:
    """The lines of a run so far, and how each transfer is judged by them."""

    def __init__(self, plan: NetworkPlan, lines: Iterable[FlowLine] = ()) -> None:
        self.plan = plan
        self.planned = [flow for wave in plan.waves() for flow in wave]
        self.lines: dict[Flow, FlowLine] = {}
        # Both follow from the lines.
        self._usual: dict[tuple[int, str], tuple[float, float]] = {}
        self._failed: dict[tuple[int, int], list[Flow]] = {}
        for line in lines:
            self.take(line)

    def take(self, line: FlowLine) -> None:
        """One more line; the first of a transfer stays."""
        self.lines.setdefault(line.flow, line)
        self._usual.clear()
        self._failed.clear()

    def missing(self, flows: Iterable[Flow]) -> list[Flow]:
        """Those of some transfers that nobody made yet, each once."""
        return [flow for flow in dict.fromkeys(flows) if flow not in self.lines]

    def passes(self, line: FlowLine) -> blame.Outcome:
        """How a transfer is judged."""
        if line.outcome in ("failed", "hung"):
            return "failed"
        if line.outcome != "done" or line.gbit is None or line.latency_us is None:
            return "unmeasured"
        rails = [self.plan.rail(node, line.rail) for node in (line.client, line.server)]
        if line.gbit < LEAST_SHARE * min(rail.gbit for rail in rails):
            return "failed"
        if line.client == line.server:
            return "passed"
        middle, spread = self.usual(line.rail, "gbit")
        behind = middle - line.gbit
        if behind > middle * peers.BAD_PERCENT / 100 and behind > peers.BAD_Z * spread:
            return "failed"
        late, _ = self.usual(line.rail, "latency_us")
        return "failed" if line.latency_us > LATE * late else "passed"

    def usual(self, rail: int, metric: str) -> tuple[float, float]:
        """Median and standard deviation of a metric, of the plan's own transfers on a rail."""
        key = (rail, metric)
        if key not in self._usual:
            own = (flow for flow in self.planned if flow.rail == rail and flow in self.lines)
            found = [getattr(self.lines[flow], metric) for flow in own]
            values = [value for value in found if value is not None]
            middle, mad = peers.centre(values) if values else (0.0, 0.0)
            self._usual[key] = (middle, peers.OF_MAD * mad)
        return self._usual[key]

    def answer(self, test: GroupTest) -> blame.Outcome | None:
        """The result of a group test; None while one of its transfers was not made."""
        inside = {*test.nodes}
        for flow in self.failed(test.rail, test.repeat + 1):
            ends = {flow.client, flow.server}
            if ends <= inside and (len(ends) > 1) == (len(inside) > 1):
                return "failed"
        flows = flows_of(test)
        if any(flow not in self.lines for flow in flows):
            return None
        found = {self.passes(self.lines[flow]) for flow in flows}
        return "unmeasured" if "unmeasured" in found else "passed"

    def failed(self, rail: int, attempt: int) -> list[Flow]:
        """Transfers that failed."""
        key = (rail, attempt)
        if key not in self._failed:
            own = (line for line in self.lines.values() if (line.rail, line.attempt) == key)
            self._failed[key] = [line.flow for line in own if self.passes(line) == "failed"]
        return self._failed[key]


def wanted(results: Results) -> list[Flow]:
    """Transfers of the next round of blame; empty once that is concluded."""
    said = blame.conclusion(results.plan.rails, results.answer)
    return results.missing(flow for test in said.open for flow in flows_of(test))


Facts = Mapping[str, tuple[object, object]]
"""What each node read of its ports, before and after."""


def verdict(results: Results, read: Facts) -> Verdict:
    """Everything found of ports, transfers and marking, and who is to blame."""
    plan = results.plan
    found = [
        finding
        for name, node in plan.nodes.items()
        for finding in (
            *facts.findings(name, node.declared, read[name][0]),
            *facts.growth(name, node.declared, *read[name]),
        )
    ]
    found += facts.twins({name: before for name, (before, _) in read.items()})
    for rail in plan.rails:
        planned = [flow for flow in results.planned if flow.rail == rail]
        lines = [results.lines[flow] for flow in planned if flow in results.lines]
        found += [
            *(one.with_check("network.traffic") for one in _traffic(results, rail, lines, planned)),
            *(one.with_check("network.marking") for one in _marking(plan, rail, lines)),
        ]
    said = blame.conclusion(plan.rails, results.answer)
    found += [_blamed(each) for each in said.blames]
    if said.open:
        summary = f"{len(said.open)} tests are still to be made: who is to blame is not known"
        found.append(Finding(summary, Status.UNMEASURED, check="network.blame"))
    return Verdict(tuple(found))


def _traffic(
    results: Results, rail: int, lines: Sequence[FlowLine], planned: Sequence[Flow]
) -> Iterator[Finding]:
    """Whether each planned transfer of a rail was made, and was as fast as it should be."""
    subject = f"rail {rail}"
    verdicts = [results.passes(line) for line in lines]
    lost = len(planned) - len(lines) + verdicts.count("unmeasured")
    if lost or not planned:
        why = next((line.why for line in lines if line.outcome != "done"), "they were not made")
        summary = f"{lost} of {len(planned)} transfers have no figure: {why}"
        yield Finding(summary, Status.UNMEASURED, subject, source=_SOURCE)
    if "failed" in verdicts:
        summary = f"{verdicts.count('failed')} of {len(planned)} transfers were too slow or failed"
        worst = min(lines, key=lambda line: line.gbit or 0.0)
        said = worst.why or f"{worst.gbit:g} Gbit/s, {worst.latency_us:g} us"
        read = f"{worst.client} to {worst.server}: {said}"
        yield Finding(summary, Status.FAIL, subject, read, "", _SOURCE, Action.MONITOR)
    elif planned and not lost:
        gbit, late = (results.usual(rail, metric)[0] for metric in ("gbit", "latency_us"))
        summary = f"{len(planned)} transfers, median {gbit:.4g} Gbit/s and {late:.3g} us"
        yield Finding(summary, Status.PASS, subject, source=_SOURCE)


def _marking(plan: NetworkPlan, rail: int, lines: Sequence[FlowLine]) -> Iterator[Finding]:
    """Whether marked traffic arrives on its priority, where one is declared."""
    subject, source = f"rail {rail}", "priority counters of the receiving adapters (ethtool -S)"
    own = [line for line in lines if plan.rail(line.server, rail).priority is not None]
    wrong = [line for line in own if line.marked is not None and line.marked < MARKED]
    if wrong:
        read = f"{wrong[0].marked:.0%} to {wrong[0].server}"
        yield Finding(
            f"{len(wrong)} of {len(own)} transfers did not arrive on the declared priority",
            Status.FAIL, subject, read, f"at least {MARKED:.0%}", source, Action.MONITOR,
        )  # fmt: skip
    elif any(line.marked is None for line in own):
        summary = "no adapter counts bytes by priority: the marking is not proven"
        yield Finding(summary, Status.UNMEASURED, subject, source=source)
    elif own:
        summary = f"{len(own)} transfers arrived on the declared priority"
        yield Finding(summary, Status.PASS, subject, source=source)


_WORDS: dict[blame.Kind, tuple[str, Action]] = {
    "node": ("every rail of {nodes} is bad: the node", Action.REBOOT),
    "port": ("rail {rails} of {nodes} is bad inside the node: adapter, PCIe or GPU", Action.REBOOT),
    "cable": ("rail {rails} of {nodes}: optic, cable or the port of {leaf}", Action.REPLACE),
    "element": ("rail {rails} of {nodes} is bad; inside the node or its cable", Action.REPLACE),
    "leaf": ("every port of {leaf} on rail {rails} is bad: the leaf", Action.REPLACE),
    "rail": ("nothing on rail {rails} passes: no part can be singled out", Action.MONITOR),
    "boundary": ("rail {rails}: what joins {nodes} to {others}, and not these", Action.MONITOR),
    "pair": ("rail {rails}: only {nodes} and {others} with each other", Action.MONITOR),
    "transient": ("rail {rails}: {nodes} and {others} failed once and passed", Action.MONITOR),
    "unmeasured": ("rail {rails} of {nodes} gave no figures", Action.NONE),
}


def _blamed(one: Blame) -> Finding:
    template, action = _WORDS[one.kind]
    summary = template.format(
        rails=", ".join(map(str, one.rails)),
        nodes=_named(one.nodes),
        others=_named(one.others) or "everybody else",
        leaf=one.leaf or "its leaf",
    )
    rails = f" rail {one.rails[0]}" if len(one.rails) == 1 else ""
    status = {"unmeasured": Status.UNMEASURED, "transient": Status.PASS}.get(one.kind, Status.FAIL)
    subject = one.leaf if one.kind == "leaf" else f"{_named(one.nodes)}{rails}"
    return Finding(
        summary, status, subject, source="group tests (docs/network.md)", action=action,
        check="network.blame", subjects=one.nodes, kind=one.kind,
    )  # fmt: skip


def _named(nodes: Sequence[str]) -> str:
    return ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
