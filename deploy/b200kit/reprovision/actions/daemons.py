"""What a restart of the services and a reset of the GPUs have in common, on the controller."""

from __future__ import annotations

import json
import shlex

from b200kit.reprovision.actions import ActFailed, Intent, Say
from b200kit.run.node import Node
from b200kit.run.remote import RemoteError, program_step

LOG = "/var/log/b200kit-gpu-daemons.log"


def run(node: Node, intent: Intent, how: str, limit_s: int, say: Say) -> str:
    """Do it on the node, once for an act's id, over a lost connection too. Raises ActFailed.

    A node program that a dead controller left at work is waited for, and its answer is the act's.
    """
    say(f"{how}: it has {limit_s} s")
    words = f"gpu-daemons {how} --act {shlex.quote(str(intent['id']))} --deadline {limit_s}"
    remote = node.connected()
    try:
        # The program has to be on the node before it can be a step of a script.
        remote.program(f"gpu-daemons show --act {shlex.quote(str(intent['id']))}", timeout=60)
        said = remote.run_logged(program_step(words), LOG, limit_s=limit_s + 60)
    except RemoteError as error:
        raise ActFailed(f"{how} of the GPUs' daemons: {error}") from None
    finally:
        node.state = None
    return said.strip()


def done(node: Node, intent: Intent) -> str | None:
    """What the node keeps of an act that came to its end; None when it has to be done (again)."""
    words = f"gpu-daemons show --act {shlex.quote(str(intent['id']))}"
    try:
        kept = json.loads(node.connected().program(words, timeout=60))
    except (RemoteError, ValueError) as error:
        raise ActFailed(f"whether it was done cannot be told: {error}") from None
    return f"done at {kept['at']}: {kept['said']}" if kept.get("step") == "done" else None
