"""Judging a node on the controller, with the same code and the same expectation as on the node."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

from b200kit.node.checks import bare
from b200kit.node.checks.judge import judge_vetted, registered
from b200kit.node.lib import timestamp
from b200kit.node.lib.documents import structure, unstructure
from b200kit.node.state.verdict import Verdict
from b200kit.records import end_of_run
from b200kit.report import files
from b200kit.report.document import counted
from b200kit.run.document import ServedEndpoint, StageRecord
from b200kit.run.node import Node, StageFailed, duration
from b200kit.run.remote import RemoteError
from b200kit.run.session import RUN
from b200kit.serving import replica
from b200kit.serving.gateway import haproxy_config
from b200kit.stages import gate, proof, watchdog, weights

Observer = Callable[[Node], dict[str, Any]]


# What only a node that serves can be judged by; at the gate nothing serves yet.
_SERVING = ("placement.", "weights.")


def judged(node: Node, observer: Observer, serving: bool = False) -> Verdict:
    """The verdict on the node as it is now; kept with the node for the report."""
    state = observer(node)
    node.record.expectation = expectation(node, serving)
    verdict = judge_vetted(node.record.expectation, state)
    node.record.verdict = unstructure(verdict)
    return verdict


def expectation(node: Node, serving: bool) -> dict[str, Any]:
    """What the node is judged by today; *serving* adds what holds of its replicas that run."""
    today = {"today": timestamp.today()}
    return {**gate.expectation(node), **today, **(_of_serving(node) if serving else {})}


def _of_serving(node: Node) -> dict[str, Any]:
    known = {
        **weights.expected(node, serving=True),
        **watchdog.expected(node),
        **proof.expected(node),
    }
    try:
        return {"placement": replica.placement(node, node.layout()), **known}
    except StageFailed as error:
        return {"placement": {"unmeasured": f"there is no layout: {error}"}, **known}


def require(node: Node, observer: Observer) -> None:
    """Keep the node only if it is fit; otherwise stop what serves there and drop it."""
    with node.stage("gate") as entry:
        verdict = judged(node, observer)
        counts = verdict.counts
        entry.detail = f"{sum(counts.values())} checks, {counts['unmeasured']} unmeasured"
        if verdict.fit == "fit":
            return
        # The fault is named before anything is done about it: what follows may fail, too.
        node.fail("gate", why(verdict), outcome="red")
        _withdraw(node, entry)


def require_serving_checks(node: Node, observer: Observer) -> None:
    """Judge what could not be judged before it served; a node that fails it stops serving."""
    with node.stage("proof") as entry:
        observed = serving_verdict(node, observer)
        verdict = node.record.verdict
        before = structure(Verdict, verdict) if verdict else Verdict()
        kept = tuple(f for f in before.findings if not f.check.startswith(_SERVING))
        node.record.verdict = unstructure(Verdict(kept + observed.findings, before.not_applicable))
        entry.detail = "; ".join(f.summary for f in observed.findings if not f.blocks)
        if observed.fit != "fit":
            node.fail("proof", why(observed), outcome="red")
            _withdraw(node, entry)


def serving_verdict(node: Node, observer: Observer) -> Verdict:
    """The verdict by what only a node that serves shows."""
    state = observer(node)
    node.record.expectation = expectation(node, serving=True)
    checks = {n: run for n, run in registered().items() if n.startswith(_SERVING)}
    return judge_vetted(node.record.expectation, state, checks)


def _withdraw(node: Node, entry: StageRecord) -> None:
    try:
        stopped = gate.withdraw(node)
        node.record.withdrawn = {"units": stopped}
        entry.changes += [f"stop {unit}" for unit in stopped]
    except RemoteError as error:
        node.record.withdrawn = {"unmeasured": str(error)}
        entry.detail = f"could not be stopped from serving: {error}"
        node.say("gate", f"STILL SERVING, {entry.detail}")


def report(node: Node, observer: Observer) -> None:
    """Judge only: the outcome is the verdict. Afterwards the node is no more than its record."""
    try:
        observer(node)
    except (RemoteError, StageFailed) as error:
        node.fail("observe", str(error))
        return
    with node.stage("check"):
        if verdict := bare.judged(asked := expectation(node, serving=False), observer(node)):
            node.record.expectation, node.record.verdict = asked, unstructure(verdict)
            outcome, well = bare.outcome(verdict), bare.NO_DRIVER
        else:
            verdict = judged(node, observer, serving=True)
            outcome, well = verdict.fit, None
    node.record.outcome = outcome
    node.record.error = why(verdict) if verdict.blocking else well
    node.close(files.finished(end_of_run.host(node, RUN.id)))


def _endpoint(node: Node) -> ServedEndpoint:
    """As clients reach it; a gateway on every address is named by the node's own."""
    spec = node.spec
    here = ipaddress.ip_address(spec.gateway_bind)
    url = haproxy_config.address(spec)
    if here.is_unspecified:
        data = node.connected().host.data
        url = haproxy_config.url(spec, str(data.get("ssh_hostname") or node.name))
    return ServedEndpoint(f"{url}/v1", spec.model, here.is_loopback, "api_key" in node.secrets)


def why(verdict: Verdict) -> str:
    """The first thing that keeps a node from being fit, and how many more there are."""
    worst = verdict.blocking[0]
    more = len(verdict.blocking) - 1
    return worst.summary + (f" (and {more} more)" if more else "")


def conclude(node: Node) -> None:
    """Mark the node live and say so on one line."""
    record = node.record
    if node.state is None and record.smoke is None and not node.headless:
        raise StageFailed("not measured")
    record.outcome = "live"
    record.endpoint = None if node.headless else _endpoint(node)
    if record.changes:
        node.say("LIVE", counted(record.changes, "change"))
    else:
        age = f"last smoke {duration(record.smoke_age_s)} ago, " if record.smoke_age_s else ""
        remote = node.connected()
        node.say("LIVE", f"no change, {age}{counted(remote.commands, 'command')}")
