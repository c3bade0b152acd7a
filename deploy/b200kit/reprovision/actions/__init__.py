"""The remediation actions, an `ACTION` each; `ACTIONS` of reprovision/steps.py has them by level.

    class Reboot:
        def facts(self, node): ...          # saved in the intent line, before anything is done
        def probe(self, node, intent): ...  # after a crash: already done? how is that known?
        def perform(self, node, intent, say): ...
    ACTION = Reboot()

The `id` of an intent names this one action for ever, so that what it leaves on the node is distinct
from an earlier one's. It is on the controller's disk before `perform` begins. What went wrong is an
ActionFailed, one line that never holds a secret; the node then escalates to the next level.

Beside the levels stand the steps every node takes, functions of
b200kit/reprovision/actions/quarantine.py and b200kit/reprovision/actions/evidence.py:

    quarantine.put(node, who, why) -> str   the mark: from the next boot on nothing serves there
    quarantine.close(node) -> str           after the drain: nothing serves there now
    quarantine.admit(node, who) -> str      the mark stays, the services may start to be proven
    quarantine.lift(node, who) -> str       the mark is gone
    evidence.collect(node, intent, say) -> EvidenceBundle

They may be repeated at no harm, and raise ActionFailed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from b200kit.reprovision.ledger_line import IntentLine
from b200kit.run.node import StageFailed

if TYPE_CHECKING:
    from b200kit.run.node import Node

Say = Callable[[str], None]


class ActionFailed(StageFailed):
    """An action that did not complete, in one line: what was observed, and what to do."""


class ActionRefused(ActionFailed):
    """An action that could not begin, for a reason that is not the node's: wrong credentials, a BMC
    that does not answer, a hook that is not there. The node stays as it is and no higher level is
    tried: a person removes the reason and runs again, which counts as the same attempt.
    """


class RemediationAction(Protocol):
    """The action of one level."""

    def facts(self, node: Node) -> dict[str, Any]:
        """Fields of the intent by which `probe` knows whether it was done. {} for none."""

    def probe(self, node: Node, intent: IntentLine) -> str | None:
        """After a crash: "already done because ...", or None when it has to be done (again)."""

    def perform(self, node: Node, intent: IntentLine, say: Say) -> str:
        """Do it; returns what was observed. Raises ActionFailed."""
