"""An acceptance run of one node as deploy/burnin.py makes it: begun, waited for, kept, judged.

The node runs its tests by itself, in a unit that goes on after a lost connection, a killed
controller and a reboot; here it is only waited for. So whatever ends this program, the next one
finds the run as far as it came, or finished and not fetched yet. The node seals the run; it is kept
only if the seal holds by the node's pinned host key.
"""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from b200kit.acceptance import figures, page, seal
from b200kit.acceptance.network import run as network
from b200kit.acceptance.seal import SealedRun
from b200kit.catalog import hardware
from b200kit.converge.stage import Change, Stage, enable, nothing, put, why
from b200kit.node.acceptance import table
from b200kit.node.checks.judge import judge_vetted
from b200kit.node.lib import documents, durable_files, timestamp
from b200kit.node.lib.documents import LARGE, unstructure
from b200kit.node.lib.signature import ACCEPTANCE
from b200kit.node.state.acceptance import AcceptanceState
from b200kit.node.state.drift import File, NodeUnit
from b200kit.node.state.verdict import Finding, Status, Verdict
from b200kit.node.state.view import StateView, Unread
from b200kit.operations import gate, observe, reboot
from b200kit.run import host_keys, node_archive, signed_proof, zipapp
from b200kit.run.document import AcceptanceResult
from b200kit.run.node import Node, StageFailed, duration
from b200kit.run.remote import INSTALLED, RemoteError
from b200kit.run.render import render
from b200kit.run.session import RUN
from b200kit.stages import serving_units
from b200kit.store.database import SITE

_LEAST = 2
UNIT = "b200-acceptance.service"
LOG = "acceptance"
"""The log of the site's store that has a line for each run that was kept."""
OUTCOMES = {"fit": "accepted", "unfit": "not accepted", "unmeasured": "unmeasured"}
_POLL_S = 15.0
_LOCKED_S = 3600.0
"""After which the node's lock is taken again: it runs out, and a reboot ends it."""
_FETCH_S = 1200


def allowed(node: Node) -> str:
    """The lines of allowed signers of a node's acceptance runs. Raises ValueError."""
    keys = host_keys.of(node.connected().host).keys()
    return signed_proof.signers(node.name, keys, ACCEPTANCE)


@dataclass
class Between:
    """The network between the nodes of a run, measured once for all and judged for each.

    pyinfra brings every node through one operation before the next one begins. So the first node
    that comes here measures for all whose own tests were sealed; the others take its result.
    """

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


class AcceptanceStages:
    """The acceptance run of one node of a run; its stages stand in deploy/burnin.py."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.sealed: SealedRun | None = None
        self.state: AcceptanceState | None = None
        self.locked_at = time.monotonic()
        self.tests = Stage(name="accept", desired=nothing, plan=self._plan)
        self.network = Stage(name="network", desired=nothing, plan=self._plan_network)
        self.verdict = Stage(name="verdict", desired=nothing, plan=self._plan_verdict)

    def _plan(self, node: Node) -> list[Change]:
        """Tests load every part of the node, so that nothing may serve there meanwhile."""
        if running := serving_units.running(node, serving_units.units(node)):
            names = " ".join(running)
            raise StageFailed(f"it may serve: drain it, then systemctl stop {names}")
        try:
            StateView(node.state or {}).text("nvml", "driver_version")
        except Unread as error:
            raise StageFailed(f"no driver answers ({error}): b200 deploy installs it") from None
        level = node.spec.accept_level
        gpus = hardware.load(node.spec.hardware)["expect"]["gpu_count"]["value"]
        steps = table.steps(level, table.Facts(gpus, ("each disk",)))
        tests = ", ".join(dict.fromkeys(step.test for step in steps))
        most = duration(sum(step.timeout_s for step in steps))
        return [Change(f"run level {level}: {tests}; at most {most}", self._run, self._progress)]

    def _progress(self, seconds: float) -> str:
        if self.state is None:
            return f"{duration(seconds)} so far"
        done, left = self.state.done + 1, duration(self.state.left_s)
        at = f"segment {min(done, self.state.of)} of {self.state.of}"
        return f"{at}, {self.state.test}; at most {left} left"

    def _run(self, node: Node) -> str:
        """Bring the run to its end, and what it left to the site."""
        run = self._begun()
        if self._asked().status != "finished":
            put(node, files())
            enable(node, [NodeUnit(UNIT)])
            self._wait()
        self.sealed = found = self._kept(run)
        node.connected().run(f"systemctl disable --now {UNIT}")
        self._record(found)
        BETWEEN.join(node)
        return f"sealed: {found.path.relative_to(seal.directory().parent)}/ ({found.signed_by})"

    def _begun(self) -> str:
        """The id of the run to wait for: one that is not at its end, or not kept, or a new one."""
        node, level = self.node, self.node.spec.accept_level
        state = self._asked()
        if state.status in ("running", "interrupted") and state.level != level:
            raise StageFailed(
                f"{state.id} of level {state.level} is not at its end: go on with it by "
                f"b200 accept {node.name} --class {state.level}, or seal what there is, on the "
                "node: node.pyz acceptance stop"
            )
        if state.status in ("running", "interrupted"):
            node.say("accept", f"going on with {state.id}: {state.done} of {state.of} are done")
            return state.id
        if state.status == "finished" and state.level == level and not self._is_recorded(state.id):
            node.say("accept", f"{state.id} had finished; it is fetched, and no other one begun")
            return state.id
        floors = unstructure(figures.floors(node.spec))
        asked = {"node": node.name, "level": level, "floors": floors}
        return node.connected().program("acceptance begin", json.dumps(asked)).strip()

    def _is_recorded(self, run: str) -> bool:
        """Whether an earlier run of this program came to its end with that one."""
        lines = SITE.read(LOG, self.node.name)
        return any(documents.decode(AcceptanceResult, one.text).id == run for one in lines)

    def _asked(self) -> AcceptanceState:
        said = self.node.connected().program("acceptance state", timeout=60)
        try:
            self.state = documents.decode(AcceptanceState, said, LARGE, "acceptance state")
        except ValueError as error:
            raise StageFailed(str(error)) from None
        return self.state

    def _wait(self) -> None:
        """Ask until the run is at its end; print the lines of segments as they come."""
        node, printed, resumed_at = self.node, 0, -1
        while True:
            state = self._looked()
            for line in state.last[printed:]:
                node.say("accept", line)
            printed = len(state.last)
            if state.status == "finished":
                return
            if state.status == "none":
                raise StageFailed("the run that was begun is not on the node any more")
            if state.status == "interrupted":
                if resumed_at == state.done:
                    raise StageFailed(f"{state.test} does not go on: {why(node, UNIT)}")
                resumed_at = state.done
                node.connected().run(f"systemctl start --no-block {UNIT}")
            time.sleep(min(_POLL_S, 0.1 + state.left_s / 20))

    def _looked(self) -> AcceptanceState:
        """How far it is; a node that went away is waited for, as it may be at a counted reboot."""
        try:
            found = self._asked()
        except RemoteError:
            reboot.wait_until_back(
                self.node, None, self.node.spec.reboot_deadline_s, "reboot or lost connection"
            )
            self.locked_at = 0.0
            found = self._asked()
        if time.monotonic() > self.locked_at + _LOCKED_S:
            observe.refresh(self.node, RUN.id)
            self.locked_at = time.monotonic()
        return found

    def _kept(self, run: str) -> SealedRun:
        """The run in the site's folder, verified: fetched, or there since a run that was killed."""
        node, target = self.node, seal.place_of(self.node.name, run)
        try:
            keys = allowed(node)
            if target.exists():
                return seal.verified(target, lambda _: keys, node.name)
            output = node.connected().program(
                f"acceptance archive {shlex.quote(run)}", timeout=_FETCH_S,
                most_bytes=node_archive.printed_bytes(seal.PACKED_BYTES),
            )  # fmt: skip
            content, _ = node_archive.received(output)
            return seal.keep(content, target, lambda _: keys, node.name)
        except (OSError, ValueError) as error:
            raise StageFailed(f"{run} is not kept: {error}") from None

    def _record(self, found: SealedRun) -> None:
        """A page beside the folder, in which it would be one too many; a line in the store."""
        plan = found.plan
        beside = found.path.with_name(f"{found.path.name}.html")
        durable_files.replace(beside, page.page(found))
        segments = Counter(str(line.outcome) for line in found.lines)
        result = AcceptanceResult(
            plan.id, plan.level, plan.started_at, timestamp.now(), found.verdict.fit,
            found.path.name, found.sums, found.signed_by, plan.machine.serial, dict(segments),
        )  # fmt: skip
        SITE.append(LOG, plan.node, json.dumps(unstructure(result), sort_keys=True))
        self.node.record.acceptance = result

    def _plan_network(self, node: Node) -> list[Change]:
        """Nothing where fewer than two nodes with rails have come so far."""
        if self.sealed is None or node.name not in BETWEEN.nodes or not BETWEEN.is_wanted:
            return []
        return [Change("measure the network between the nodes", BETWEEN.measure, measures=True)]

    def _plan_verdict(self, node: Node) -> list[Change]:
        del node
        return [Change("judge", self._judge, measures=True)] if self.sealed else []

    def _judge(self, node: Node) -> None:
        """What the tests found, and what the gate says of the node now that they are over."""
        if self.sealed is None:
            return
        # A node is tested while it is out of service: that is no fault of it.
        expectation = {**gate.expectation(node, serving=False), "quarantine": "off"}
        observe.refresh(node, RUN.id)
        now = judge_vetted(expectation, node.state)
        own = self.sealed.verdict
        every = own.findings + BETWEEN.of(node.name) + now.findings
        both = Verdict(every, {**own.not_applicable, **now.not_applicable})
        record = node.record
        record.expectation, record.verdict = expectation, unstructure(both)
        record.outcome = OUTCOMES[both.fit]
        record.error = gate.why(both) if both.blocking else None


def files() -> list[File]:
    """What the node runs its tests by."""
    unit = render(f"systemd/{UNIT}.j2", program=INSTALLED)
    program = File(INSTALLED, zipapp.build()[0], 0o755)
    return [program, File(f"/etc/systemd/system/{UNIT}", unit)]
