"""What is done to a node that is mended: one module a rung, each with an `ACT`.

    class Reboot:
        def facts(self, node): ...          # kept in the intent line, before anything is done
        def probe(self, node, intent): ...  # after a crash: already done? by what can you tell?
        def perform(self, node, intent, say): ...
    ACT = Reboot()

An intent is {"id", "node", "rung", "attempt", "of", "at", "why", "boot_id", **facts}: `id` names
this one act for ever, so that whatever an act leaves on the node can be told from an earlier one's.
It is on the controller's disk before `perform` begins. What went wrong is an ActFailed, one line
that never holds a secret; the node then climbs the ladder.

Beside the rungs stand the steps every node takes, functions of
b200kit/reprovision/actions/quarantine.py and b200kit/reprovision/actions/evidence.py:

    quarantine.put(node, who, why) -> str   the mark: from the next boot on nothing serves there
    quarantine.close(node) -> str           after the drain: nothing serves there now
    quarantine.admit(node, who) -> str      the mark stays, the services may start to be proven
    quarantine.lift(node, who) -> str       the mark is gone
    evidence.collect(node, intent, say) -> Evidence

They may be repeated at no harm, and raise ActFailed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from b200kit.inventory.keys.levels import Level
from b200kit.run.node import StageFailed

if TYPE_CHECKING:
    from b200kit.run.node import Node

Intent = Mapping[str, Any]
Say = Callable[[str], None]

MODULES: dict[Level, str] = {
    Level.RESTART_SERVICES: "b200kit.reprovision.actions.restart_services",
    Level.RESET_GPUS: "b200kit.reprovision.actions.reset_gpus",
    Level.REBOOT: "b200kit.reprovision.actions.reboot",
    Level.POWER_CYCLE: "b200kit.reprovision.actions.power_cycle",
    Level.REIMAGE: "b200kit.reprovision.actions.reimage",
}


class ActFailed(StageFailed):
    """An act that did not come to its end, in one line: what was seen, and what to do."""


class ActRefused(ActFailed):
    """An act that could not begin, for a reason that is not the node's: wrong credentials, a BMC
    that does not answer, a hook that is not there. The node stays as it is and no higher rung is
    tried: a person mends the reason and runs again, which counts as the same attempt.
    """


class Act(Protocol):
    """One rung of the ladder."""

    def facts(self, node: Node) -> dict[str, Any]:
        """What the intent keeps, so that `probe` can tell after from before. {} for nothing."""

    def probe(self, node: Node, intent: Intent) -> str | None:
        """After a crash: "already done because ...", or None when it has to be done (again)."""

    def perform(self, node: Node, intent: Intent, say: Say) -> str:
        """Do it; returns what was seen. Raises ActFailed."""


@dataclass(frozen=True)
class Evidence:
    """The bundle of a node, on the controller."""

    path: str
    sha256: str


def act_of(rung: Level) -> Act:
    """The act of a rung. Raises ActFailed for one that only hands can do."""
    if rung not in MODULES:
        raise ActFailed(f"{rung.word} is for hands")
    act: Act = import_module(MODULES[rung]).ACT
    return act
