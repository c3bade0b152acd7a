"""Restart the services, or reset the GPUs, all of them at once.

The recipe is in b200kit/node/maintenance/reset_gpus.py. NVSwitch connects all eight: one GPU cannot
be reset alone without configuring the fabric again. A restart is the level of least cost; where a
fabric manager is among the daemons it resets the GPUs in between, as the next level does: it is
never restarted beside what computes. Nothing serves any more; the replicas are started by the
stages that follow, as on any run: warm before the gateway opens.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from b200kit.inventory.keys.reprovision import Deadlines
from b200kit.node.lib import documents
from b200kit.reprovision.actions import ActionFailed, Say
from b200kit.reprovision.ledger_line import IntentLine
from b200kit.run.node import Node
from b200kit.run.remote import RemoteError, program_step
from b200kit.stages.fabric import DAEMONS_LOG


@dataclass(frozen=True)
class DaemonsAction:
    """An action of the node's program `gpu-daemons`; the node has a note by the action's id.

    A boot forgets the note: it resets the GPUs and starts the services itself.
    """

    how: str
    deadline: Callable[[Deadlines], int]

    def facts(self, node: Node) -> dict[str, Any]:
        """None are needed."""
        del node
        return {}

    def probe(self, node: Node, intent: IntentLine) -> str | None:
        """By that note; None when it has to be done (again)."""
        words = f"gpu-daemons show --act {shlex.quote(intent.id)}"
        try:
            said = node.connected().program(words, timeout=60)
            note = documents.decode(documents.Object, said)
            return f"done at {note['at']}: {note['output']}" if note.get("step") == "done" else None
        except (RemoteError, ValueError, KeyError) as error:
            raise ActionFailed(f"whether it was done is unknown: {error}") from None

    def perform(self, node: Node, intent: IntentLine, say: Say) -> str:
        """Do it and wait for the fabric, once for an action's id, over a lost connection too.

        A node program that a dead controller left running is waited for; its answer is the
        action's. Raises ActionFailed.
        """
        limit_s = self.deadline(node.spec.reprovision.deadlines)
        say(f"{self.how}: it has {limit_s} s")
        act = shlex.quote(intent.id)
        words = f"gpu-daemons {self.how} --act {act} --deadline {limit_s}"
        remote = node.connected()
        try:
            # The program has to be on the node before it can be a step of a script.
            remote.program(f"gpu-daemons show --act {act}", timeout=60)
            output = remote.run_logged(program_step(words), DAEMONS_LOG, limit_s=limit_s + 60)
        except RemoteError as error:
            raise ActionFailed(f"{self.how} of the GPUs' daemons: {error}") from None
        finally:
            node.state = None
        return output.strip()


RESTART = DaemonsAction("restart", lambda deadlines: deadlines.restart_services)
RESET = DaemonsAction("reset", lambda deadlines: deadlines.reset_gpus)
