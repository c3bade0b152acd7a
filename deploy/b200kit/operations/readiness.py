"""Whether a node can be provisioned, before its first change: asked of the node, judged here.

What a run looks at anyway is judged on every run. The node's apt is asked only where something is
to be installed, or on request: that is the one further command.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from b200kit.converge import apt
from b200kit.converge.stage import unavailable
from b200kit.node.checks.judge import judge_vetted
from b200kit.node.facts.dpkg_state import unfinished
from b200kit.node.lib import documents, timestamp
from b200kit.node.lib.documents import unstructure
from b200kit.node.packages.apt_trial import AptTrial
from b200kit.node.packages.transaction import PackageTransaction
from b200kit.node.state import drift
from b200kit.node.state.advice import of as advice
from b200kit.node.state.drift import File, Package
from b200kit.node.state.plausible import plausible
from b200kit.node.state.verdict import Action, Finding, Status, Verdict
from b200kit.node.state.view import StateView
from b200kit.readiness import expected
from b200kit.readiness.checks import CHECKS, DECIDE
from b200kit.run.node import Node
from b200kit.run.remote import RemoteError
from b200kit.serving.gateway import vllm_router
from b200kit.stages import gate, pipeline, serving_units
from b200kit.stages.support.driver_set import stack

Observer = Callable[[Node], dict[str, Any]]
_OUTCOMES = {"fit": "ready", "unfit": "not ready"}
_MOST_S = 180


def report(node: Node, observer: Observer) -> None:
    """Judge only: the outcome is the verdict."""
    with node.stage("ready"):
        verdict = judged(node, observer, always=True)
    node.record.outcome = _OUTCOMES.get(verdict.fit, verdict.fit)
    node.record.verdict = unstructure(verdict)
    node.record.error = verdict.blocking[0].summary if verdict.blocking else None


def require(node: Node, observer: Observer) -> None:
    """Keep the node only if it is ready; say every finding, with what to do, on a line."""
    with node.stage("ready") as entry:
        verdict = judged(node, observer)
        entry.detail = f"{len(verdict.findings)} checks"
    for finding in verdict.findings:
        if finding.action is Action.MONITOR and finding.status is Status.PASS:
            node.say("ready", f"note: {finding.summary}")
    if verdict.fit == "fit":
        return
    node.record.stages[-1].status = "failed"
    node.record.verdict = unstructure(verdict)
    first, *others = verdict.blocking
    node.fail("ready", f"{line(first)}. Nothing was changed")
    for finding in others:
        node.say("ready", line(finding))


def line(finding: Finding) -> str:
    """A finding and what to do, on one line."""
    return f"{finding.summary}: {advice(finding)}"


def judged(node: Node, observer: Observer, always: bool = False) -> Verdict:
    """The verdict on the node as it is now; apt is asked where it has work, or *always*."""
    state = observer(node)
    serves = bool(serving_units.running(node, [*serving_units.units(node), vllm_router.UNIT]))
    ready = {**expected.expected(node, serves), "apt": False}
    expectation = {**gate.expectation(node), "today": timestamp.today(), "ready": ready}
    decided = judge_vetted(expectation, state, DECIDE)
    if decided.blocking:
        return decided
    ready["apt"] = always or _has_work(node)
    if ready["apt"] and "apt" not in state:
        state["apt"] = plausible({"apt": _tried(node)})["apt"]
    return judge_vetted(expectation, state, CHECKS)


def _has_work(node: Node) -> bool:
    """Whether apt will be needed: for a package, or for headers to build the driver with."""
    state = node.state or {}
    built = StateView(state).at("driver_module", "built_for")
    bare = [k for k, there in _headers(state).items() if not there]
    if any(built.known(str, kernel) != node.spec.driver for kernel in bare):
        return True
    return bool(drift.wrong_packages(_packages(node), state, unavailable(node)))


def _headers(state: dict[str, Any]) -> dict[str, bool]:
    """Kernel to whether its headers are there; none where that was not read."""
    return StateView(state).known(dict, "readiness", "headers") or {}


def _packages(node: Node) -> list[Package]:
    return [package for part in pipeline.desired(node) for package in part.packages]


def _files(node: Node) -> list[File]:
    """What the run would write below /etc/apt."""
    files = [file for part in pipeline.desired(node) for file in part.files]
    return [file for file in files if file.path.startswith("/etc/apt/")]


def _tried(node: Node) -> dict[str, Any]:
    """What the node's apt says; a command that fails is unmeasured, and so blocks."""
    state = node.state or {}
    left, lockstep, there = unfinished(state), stack(node), drift.versions(state)
    every = [*_packages(node), *lockstep.followers(there)]
    wrong = drift.wrong_packages(every, state, frozenset())
    headers = [Package(f"linux-headers-{kernel}", optional=True) for kernel in _headers(state)]
    limit = min(_MOST_S, node.spec.stage_timeout_s)
    packages = tuple(dict.fromkeys([*wrong, *headers]))
    absent = tuple(lockstep.foreign(there))
    asked = AptTrial(
        PackageTransaction(packages, absent, only=apt.only_source(node)),
        {f.path: base64.b64encode(f.content).decode() for f in _files(node)},
        # What an interrupted dpkg left is finished by the host stage, before anything else; an
        # exchange of the driver is several transactions, and the driver stage fetches it first.
        not (left.interrupted or left.broken or any(p.name in there for p in wrong)),
        limit - 10,
    )
    try:
        said = node.connected().program("apt-trial", json.dumps(unstructure(asked)), limit)
        return documents.decode(documents.Object, said, documents.LARGE, "apt-trial")
    except (RemoteError, ValueError) as error:
        return {"unmeasured": f"apt could not be asked: {error}"}
