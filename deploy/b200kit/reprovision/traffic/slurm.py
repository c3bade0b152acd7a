"""Slurm: drained by `scontrol`, its jobs counted by `squeue`, resumed when it is whole.

Slurm knows the node by the name that the inventory has for it, and gives no shares: a node comes
back at 100. A node that somebody else drained keeps that person's reason and is not resumed here.
(scontrol(1), squeue(1) of Slurm 23.11; no cluster was there to try it on.)
"""

from __future__ import annotations

import re

from b200kit.reprovision.actions import ActionFailed
from b200kit.reprovision.traffic.run_command import run
from b200kit.run.node import Node

MARK = "b200kit: "
# A job has the node's GPUs in these; one that is pending has none.
HOLDING = "CONFIGURING,RUNNING,COMPLETING,SUSPENDED,STOPPED"
_STATE = re.compile(r"\bState=(\S+)")
_REASON = re.compile(r"\bReason=(.*?)(?: \[[^\]]*\])?\s*$", re.MULTILINE)


class Slurm:
    """Slurm's jobs."""

    name = "slurm"

    def take_out(self, node: Node, why: str) -> str:
        """No new jobs; those that run continue."""
        state, reason = _observed(node)
        if _is_drained(state) and not reason.startswith(MARK):
            return f"Slurm: drained already: {reason or 'no reason given'}"
        # A line of its own would end the reason.
        words = " ".join(f"{MARK}{why}".split())
        run(["scontrol", "update", f"NodeName={node.name}", "State=DRAIN", f"Reason={words}"])
        return "Slurm: draining"

    def drained(self, node: Node) -> int | None:
        """Jobs that have the node."""
        command = ["squeue", "--noheader", f"--nodelist={node.name}", f"--states={HOLDING}"]
        try:
            lines = run([*command, "--format=%A"]).split()
        except ActionFailed:
            return None
        return len(set(lines)) if all(line.isdigit() for line in lines) else None

    def bring_back(self, node: Node, share_percent: int) -> str:
        """Resumed once it is whole, if it was drained here."""
        if share_percent < 100:
            return "Slurm knows no shares: no jobs until the node is whole"
        state, reason = _observed(node)
        if not _is_drained(state):
            return f"Slurm: {state}"
        if not reason.startswith(MARK):
            return f"Slurm: stays drained, by somebody else: {reason or 'no reason given'}"
        run(["scontrol", "update", f"NodeName={node.name}", "State=RESUME"])
        return "Slurm: resumed"


def _observed(node: Node) -> tuple[str, str]:
    """State such as "IDLE+DRAIN", and the reason without who gave it when."""
    output = run(["scontrol", "show", "node", node.name, "--oneliner"])
    state, reason = _STATE.search(output), _REASON.search(output)
    if not state:
        raise ActionFailed(f"scontrol reports no state of {node.name}: {output.strip()[:120]}")
    return state[1], reason[1].strip() if reason else ""


def _is_drained(state: str) -> bool:
    return "DRAIN" in state.upper()


TRAFFIC = Slurm()
