"""What each step of a transaction does to a node. The remediation actions are in actions/.

Every step may be repeated without harm: only actions are probed after a crash.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from b200kit.inventory.keys.levels import Level
from b200kit.reprovision import bring_up, drain, escalation, former, node_copy, provision, traffic
from b200kit.reprovision.actions import (
    ActionFailed,
    ActionRefused,
    RemediationAction,
    Say,
    daemons,
    evidence,
    power_cycle,
    quarantine,
    reboot,
    reimage,
)
from b200kit.reprovision.bring_up import why_of
from b200kit.reprovision.ledger_line import DoneLine, IntentLine
from b200kit.reprovision.reachable import require_answer, unreachable
from b200kit.reprovision.state_machine import NotFit, StepHandler
from b200kit.reprovision.transaction import Transaction
from b200kit.run.node import Node
from b200kit.run.remote import RemoteError

_LOOK_EVERY_S = 10.0
Perform = Callable[[Node, Transaction, IntentLine, Say], DoneLine]
ACTIONS: Mapping[Level, RemediationAction] = {
    Level.RESTART_SERVICES: daemons.RESTART,
    Level.RESET_GPUS: daemons.RESET,
    Level.REBOOT: reboot.ACTION,
    Level.POWER_CYCLE: power_cycle.ACTION,
    Level.REIMAGE: reimage.ACTION,
}
"""Of each level but manual repair, which is done by a person."""


@dataclass(frozen=True)
class RepeatableStep:
    """A step that may be repeated."""

    tx: Transaction
    function: Perform

    def facts(self, node: Node) -> dict[str, Any]:
        """Nothing: before and after look the same."""
        del node
        return {}

    def probe(self, node: Node, intent: IntentLine) -> str | None:
        """It is done again."""
        del node, intent
        return None

    def perform(self, node: Node, intent: IntentLine, say: Say) -> DoneLine:
        """The step."""
        former.use(node, self.tx)
        return self.function(node, self.tx, intent, say)


@dataclass(frozen=True)
class RemediationStep:
    """A remediation action, with the history put on the node before it."""

    tx: Transaction
    action: RemediationAction

    def facts(self, node: Node) -> dict[str, Any]:
        """The action's."""
        return self.action.facts(node)

    def probe(self, node: Node, intent: IntentLine) -> str | None:
        """The action's."""
        return self.action.probe(node, intent)

    def perform(self, node: Node, intent: IntentLine, say: Say) -> DoneLine:
        """The action; nothing observed before counts afterwards."""
        former.use(node, self.tx)
        node_copy.put(node, self.tx)
        try:
            self._close(node, say)
            return DoneLine(result=self.action.perform(node, intent, say))
        finally:
            node.state = None

    def _close(self, node: Node, say: Say) -> None:
        """Nothing serves meanwhile. What cannot be stopped is no reason for a higher level."""
        if unreachable(node) is not None:
            return
        try:
            say(quarantine.close(node))
        except ActionFailed as error:
            raise ActionRefused(str(error)) from None


def handler_for(name: str, tx: Transaction) -> StepHandler:
    """The handler of the step of this name in this transaction."""
    if tx.pending and tx.pending.level:
        return RemediationStep(tx, ACTIONS[tx.pending.level])
    return RepeatableStep(tx, _STEPS[name])


def _quarantine(node: Node, tx: Transaction, intent: IntentLine, say: Say) -> DoneLine:
    why, copied = why_of(tx), None
    if unreachable(node) is None:
        if not tx.in_place:
            say(quarantine.put(node, intent.who, why))
        copied = node_copy.put(node, tx)
    results = [adapter.drain(node, why) for adapter in _senders(node, tx)]
    nobody = "nobody else can take its work" if tx.in_place else "nobody sends work to it"
    return DoneLine(result="; ".join(results) or nobody, why=why, copied=copied)


def _drain(node: Node, tx: Transaction, intent: IntentLine, say: Say) -> DoneLine:
    """Wait for open streams."""
    del intent
    return DoneLine(result=drain.drain(node, _senders(node, tx), say))


def _senders(node: Node, tx: Transaction) -> list[traffic.Traffic]:
    """Who has to stop sending it work; nobody where it keeps its work."""
    return [] if tx.in_place else traffic.adapters(node)


def _evidence(node: Node, tx: Transaction, intent: IntentLine, say: Say) -> DoneLine:
    """The bundle, before anything is changed; of a node that does not answer there is none."""
    fault = unreachable(node)
    if fault is not None:
        others = [f for f in tx.findings if f.check != fault.check]
        return DoneLine(result=f"none: {fault.summary} ({fault.read})", findings=(fault, *others))
    progress: list[str] = []
    bundle = evidence.collect(node, intent, progress.append)
    return DoneLine(
        result="; ".join(progress) or f"collected before: {bundle.path}",
        evidence=bundle,
        findings=tuple(f for f in tx.findings if f.check != "node.reachable") or tx.findings,
    )


def _release(node: Node, tx: Transaction, intent: IntentLine, say: Say) -> DoneLine:
    del node, intent, say
    return DoneLine(result=f"no further action, from {tx.state.value}: {why_of(tx)}")


def _hand_over(node: Node, tx: Transaction, intent: IntentLine, say: Say) -> DoneLine:
    what, copied = f"{escalation.manual_repair_text(tx.parts)}: {intent.why}", None
    if unreachable(node) is None:
        say(quarantine.put(node, intent.who, what))
        # Where no action was taken, nothing has stopped yet what serves.
        say(quarantine.close(node))
        copied = node_copy.put(node, tx)
    return DoneLine(result=what, copied=copied)


def _prove(node: Node, tx: Transaction, intent: IntentLine, say: Say) -> DoneLine:
    del tx, intent, say
    return DoneLine(result=_require_fit(node))


def _share(node: Node, tx: Transaction, intent: IntentLine, say: Say) -> DoneLine:
    """Users again, a few of them."""
    del intent, say
    share = 100 if tx.in_place else node.spec.rollout.share_percent
    results = [t.undrain(node, share) for t in reversed(_senders(node, tx))]
    return DoneLine(result="; ".join([f"{share} % of a whole node's work", *results]))


def _return(node: Node, tx: Transaction, intent: IntentLine, say: Say) -> DoneLine:
    """Watched at its share, then as before it was taken out."""
    limit, started = node.spec.rollout.watch_s, time.monotonic()
    while True:
        verdict = _require_fit(node)
        left = limit - (time.monotonic() - started)
        if left <= 0:
            break
        time.sleep(min(left, _LOOK_EVERY_S))
    if not tx.in_place:
        say(quarantine.lift(node, intent.who))
    results = [t.undrain(node, 100) for t in reversed(_senders(node, tx))]
    result = "; ".join([f"watched for {limit} s, {verdict}", *results])
    return DoneLine(result=result, copied=node_copy.put(node, tx))


def _require_fit(node: Node) -> str:
    require_answer(node)
    try:
        found = provision.judged(node)
    except RemoteError:
        # It may have gone while it was looked at.
        require_answer(node)
        raise
    if found.fit != "fit":
        raise NotFit(found.blocking[0].summary, tuple(found.blocking))
    return f"fit by {sum(found.counts.values())} checks"


_STEPS: dict[str, Perform] = {
    "quarantine": _quarantine,
    "drain": _drain,
    "evidence": _evidence,
    "release": _release,
    "hand over": _hand_over,
    "provision": bring_up.repaired,
    "change": bring_up.changed,
    "roll back": bring_up.rolled_back,
    "prove": _prove,
    "share": _share,
    "return": _return,
}
