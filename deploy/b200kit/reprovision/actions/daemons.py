"""What a restart of the services and a reset of the GPUs have in common, on the controller."""

from __future__ import annotations

import json
import shlex

from b200kit.reprovision.actions import ActionFailed, Intent, Say
from b200kit.run.node import Node
from b200kit.run.remote import RemoteError, program_step

LOG = "/var/log/b200kit-gpu-daemons.log"


def run(node: Node, intent: Intent, how: str, limit_s: int, say: Say) -> str:
    """Do it on the node, once for an action's id, over a lost connection too. Raises ActionFailed.

    A node program that a dead controller left running is waited for; its answer is the action's.
    """
    say(f"{how}: it has {limit_s} s")
    words = f"gpu-daemons {how} --act {shlex.quote(str(intent['id']))} --deadline {limit_s}"
    remote = node.connected()
    try:
        # The program has to be on the node before it can be a step of a script.
        remote.program(f"gpu-daemons show --act {shlex.quote(str(intent['id']))}", timeout=60)
        output = remote.run_logged(program_step(words), LOG, limit_s=limit_s + 60)
    except RemoteError as error:
        raise ActionFailed(f"{how} of the GPUs' daemons: {error}") from None
    finally:
        node.state = None
    return output.strip()


def done(node: Node, intent: Intent) -> str | None:
    """The node's note of an action that ended; None when it has to be done (again)."""
    words = f"gpu-daemons show --act {shlex.quote(str(intent['id']))}"
    try:
        note = json.loads(node.connected().program(words, timeout=60))
    except (RemoteError, ValueError) as error:
        raise ActionFailed(f"whether it was done is unknown: {error}") from None
    return f"done at {note['at']}: {note['output']}" if note.get("step") == "done" else None
