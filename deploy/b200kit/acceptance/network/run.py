"""The network between nodes measured: facts, waves of transfers, blame, a sealed folder.

Driven from here, one command a node and phase of a wave: servers are started on all nodes, then all
clients run, then the servers are asked how they ended. Every line is on the disk before the next
wave; whoever was killed goes on with the newest run that is not sealed and is of the same ports.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from b200kit.acceptance import seal
from b200kit.acceptance.network.facts import by_rail
from b200kit.acceptance.network.pairs import Flow, packed
from b200kit.acceptance.network.results import (
    FlowLine,
    NetworkPlan,
    PlannedNode,
    Results,
    verdict,
    wanted,
)
from b200kit.acceptance.seal import Allowed
from b200kit.node.acceptance import folder as folders
from b200kit.node.acceptance.rdma import FlowResult, limit_s
from b200kit.node.lib import documents, durable_files, timestamp
from b200kit.node.lib.documents import LARGE, Object
from b200kit.node.state.verdict import Verdict
from b200kit.node.state.view import View
from b200kit.run.node import Node
from b200kit.run.places import safe_name
from b200kit.run.remote import RemoteError

Say = Callable[[str], object]
Ask = Callable[[str, str, float], str]
"""A node's program: its words, a request on stdin, seconds; raises RemoteError."""
SECONDS = 10.0
SIGNATURES = "signatures"
_FACTS_S, _START_S = 120.0, 60.0


@dataclass(frozen=True)
class NetworkNode:
    """A node as it is measured: its part of the plan, and how its program is run."""

    name: str
    planned: PlannedNode
    ask: Ask


@dataclass(frozen=True)
class NetworkResult:
    """What a measurement came to, and where its folder is."""

    path: Path
    verdict: Verdict


def measure(nodes: Sequence[Node], say: Say) -> NetworkResult:
    """Measure the network between connected nodes with `rails`.

    Raises RemoteError for a node that cannot be asked, and OSError, ValueError for the folder.
    """
    return Measurement([_of(node) for node in nodes], seal.directory(), say).run()


def _of(node: Node) -> NetworkNode:
    remote = node.connected()
    given = remote.host.data.get("ssh_hostname")
    rails = tuple(rail.model_dump() for rail in node.spec.rails)
    planned = PlannedNode(node.spec.fleet_address or given or node.name, rails)

    def ask(words: str, stdin: str, limit: float) -> str:
        return remote.program(words, stdin, int(limit), LARGE)

    return NetworkNode(node.name, planned, ask)


class Measurement:
    """One run, begun or gone on with."""

    def __init__(
        self, nodes: Sequence[NetworkNode], root: Path, say: Say, seconds: float = SECONDS
    ) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.say = say
        planned = {node.name: node.planned for node in nodes}
        self.path, plan = self._unfinished(root, planned) or _begun(root, planned, seconds)
        folders.mend(self.path)
        self.results = Results(plan, folders.lines(self.path, FlowLine))
        self.ports: dict[str, dict[object, Object]] = {}

    def _unfinished(
        self, root: Path, planned: Mapping[str, PlannedNode]
    ) -> tuple[Path, NetworkPlan] | None:
        for file in sorted(root.glob(f"network-*/{folders.PLAN}"), reverse=True):
            plan = documents.load(NetworkPlan, file)
            if dict(plan.nodes) == planned and not (file.parent / folders.SUMS).exists():
                self.say(f"going on with {file.parent}")
                return file.parent, plan
        return None

    def run(self) -> NetworkResult:
        """Everything that is not yet done, the seal last."""
        before = self.facts("before")
        self.ports = {name: by_rail(facts) for name, facts in before.items()}
        waves = self.results.plan.waves()
        for number, wave in enumerate(waves, 1):
            if left := self.results.missing(wave):
                self.say(f"wave {number} of {len(waves)}: {len(left)} transfers")
                self.measure(left)
        while flows := wanted(self.results):
            self.say(f"looking for who is to blame: {len(flows)} transfers")
            for wave in packed(flows):
                self.measure(wave)
        after = self.facts("after")
        found = verdict(self.results, {name: (before[name], after[name]) for name in self.nodes})
        self.seal(found)
        return NetworkResult(self.path, found)

    def facts(self, when: str) -> dict[str, Object]:
        """What each node reads of its ports; kept, so that a run that goes on has the first."""

        def read(node: NetworkNode) -> Object:
            file = facts_of(self.path, node.name, when)
            if not file.exists():
                request = json.dumps({"ports": list(node.planned.rails)})
                said = node.ask("acceptance-network", request, _FACTS_S)
                found = documents.decode(Object, said, LARGE, f"{node.name}'s facts")
                durable_files.replace(file, documents.to_bytes(found))
            return documents.load(Object, file)

        return dict(zip(self.nodes, _together(read, self.nodes.values()), strict=True))

    def measure(self, wave: Sequence[Flow]) -> None:
        """Make the transfers of a wave: bandwidth, then latency; machinery once more."""
        began = timestamp.now()
        found = self._lines(wave, began)
        if again := [flow for flow, line in found.items() if line.outcome == "machinery"]:
            found |= self._lines(again, began)
        for line in found.values():
            folders.append(self.path, line)
            self.results.take(line)

    def _lines(self, wave: Sequence[Flow], began: str) -> dict[Flow, FlowLine]:
        bandwidth, latency = self._transfer(wave, "bw"), self._transfer(wave, "lat")
        return {flow: self._line(flow, bandwidth[flow], latency[flow], began) for flow in wave}

    def _transfer(self, wave: Sequence[Flow], test: str) -> dict[Flow, FlowResult]:
        """How each flow of a wave ended; one without a server is asked nothing."""
        limit = limit_s(self.results.plan.seconds) + _START_S
        served = self._phase("serve", wave, test, "server", limit)
        ready = [flow for flow in wave if served[flow].outcome == "done"]
        asked = self._phase("ask", ready, test, "client", limit)
        ended = self._phase("end", ready, test, "server", limit)
        found = {flow: asked.get(flow, served[flow]) for flow in wave}
        for flow in ready:
            before, after = served[flow].before, ended[flow].after
            found[flow] = replace(found[flow], before=before, after=after)
        return found

    def _phase(
        self, word: str, flows: Sequence[Flow], test: str, end: str, limit: float
    ) -> dict[Flow, FlowResult]:
        """What each node says of its flows; of one that does not answer it is machinery."""
        by_node: dict[str, list[Flow]] = defaultdict(list)
        for flow in flows:
            by_node[getattr(flow, end)].append(flow)

        def ask(name: str) -> dict[Flow, FlowResult]:
            request = {"flows": [self._request(flow, end, test) for flow in by_node[name]]}
            try:
                said = self.nodes[name].ask(f"acceptance-pair {word}", json.dumps(request), limit)
                results = documents.decode(Object, said, LARGE, f"{name}'s transfers")["results"]
                found = [documents.structure(FlowResult, each) for each in results]
                return dict(zip(by_node[name], found, strict=True))
            except (RemoteError, LookupError, TypeError, ValueError) as error:
                return dict.fromkeys(by_node[name], FlowResult("machinery", f"{name}: {error}"))

        return {flow: result for each in _together(ask, by_node) for flow, result in each.items()}

    def _request(self, flow: Flow, end: str, test: str) -> dict[str, Any]:
        plan = self.results.plan
        own = getattr(flow, end)
        rail, facts = plan.rail(own, flow.rail), View(self.ports[own].get(flow.rail))
        return {
            "test": test,
            "seconds": plan.seconds,
            "port": flow.port,
            "hca": rail.hca,
            "hca_port": rail.hca_port,
            "gid": facts.known(int, "gid", "index"),
            "interface": facts.known(str, "interface"),
            "tclass": rail.tclass,
            "server": plan.nodes[flow.server].address,
            "peer": plan.nodes[flow.client].address,
        }

    def _line(self, flow: Flow, bandwidth: FlowResult, latency: FlowResult, began: str) -> FlowLine:
        worst = bandwidth if bandwidth.outcome != "done" else latency
        priority = self.results.plan.rail(flow.server, flow.rail).priority
        return FlowLine(
            **asdict(flow),
            outcome=worst.outcome,
            why=worst.why,
            gbit=bandwidth.figures.get("BW_average"),
            latency_us=latency.figures.get("t_typical"),
            marked=_share(bandwidth, priority),
            began_at=began,
        )

    def seal(self, found: Verdict) -> None:
        """Verdict and sums, signed by every node. Raises RemoteError where one does not sign."""
        durable_files.replace(self.path / folders.VERDICT, documents.to_bytes(found))
        files = signatures(self.results.plan)
        content = folders.sums(self.path, files)

        def sign(file: str) -> None:
            signed = self.nodes[files[file]].ask("acceptance sign", content.decode(), _FACTS_S)
            durable_files.replace(self.path / file, f"{signed.rstrip()}\n")

        _together(sign, files)
        durable_files.replace(self.path / folders.SUMS, content)


def _begun(
    root: Path, planned: Mapping[str, PlannedNode], seconds: float
) -> tuple[Path, NetworkPlan]:
    now = timestamp.now()
    run = f"network-{''.join(c for c in now if c.isalnum())}-{os.urandom(2).hex()}"
    plan = NetworkPlan(run, now, seconds, planned)
    durable_files.replace(root / run / folders.PLAN, documents.to_bytes(plan))
    return root / run, plan


def _share(result: FlowResult, priority: int | None) -> float | None:
    """Share of the bytes that came in on a priority; None where that is not known."""
    if priority is None or not result.before or not result.after:
        return None
    grown = {
        name: result.after[name] - count
        for name, count in result.before.items()
        if name.startswith("rx_prio") and name in result.after
    }
    total = sum(grown.values())
    if total <= 0 or min(grown.values()) < 0:
        return None
    return grown.get(f"rx_prio{priority}_bytes", 0) / total


def _together(act: Callable[[Any], Any], those: Iterable[Any]) -> list[Any]:
    """The same of several, side by side. pyinfra's gevent makes threads greenlets."""
    listed = list(those)
    with ThreadPoolExecutor(len(listed) or 1) as pool:
        return list(pool.map(act, listed))


def verified(path: Path, allowed: Allowed) -> NetworkResult:
    """A sealed run, every byte of it. Raises as `require_sealed` does."""
    plan = documents.load(NetworkPlan, path / folders.PLAN)
    seal.require_sealed(path, signatures(plan), allowed)
    results = Results(plan, folders.lines(path, FlowLine))
    read = {
        node: (documents.load(Object, facts_of(path, node, "before")),
               documents.load(Object, facts_of(path, node, "after")))
        for node in plan.nodes
    }  # fmt: skip
    found = verdict(results, read)
    if documents.load(Verdict, path / folders.VERDICT) != found:
        raise ValueError(f"{folders.VERDICT}: plan, facts and lines come to another verdict")
    return NetworkResult(path, found)


def signatures(plan: NetworkPlan) -> dict[str, str]:
    """The signatures of a run by their files, each with its node."""
    return {f"{SIGNATURES}/{safe_name(node)}.sig": node for node in plan.nodes}


def facts_of(path: Path, node: str, when: str) -> Path:
    """What a node read of its ports, "before" or "after"."""
    return path / "facts" / f"{safe_name(node)}.{when}.json"
