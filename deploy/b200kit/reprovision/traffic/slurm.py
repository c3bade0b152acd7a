"""Slurm: drained by `scontrol`, its jobs counted by `squeue`, resumed when it is whole.

Slurm knows the node by the name that the inventory has for it, and gives no shares: a node comes
back at 100. A node that somebody else drained, set DOWN or FAIL keeps that person's reason and is
not resumed here; what Slurm itself says of a node that was away is taken over. Tried on a real
slurmctld of 22.05 (tests/e2e/test_slurm.py); who runs it must be an administrator of Slurm.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from b200kit.reprovision.actions import ActionFailed
from b200kit.reprovision.traffic.run_command import one_line, run
from b200kit.run.node import Node

MARK = "b200kit:"
# A job has the node's GPUs in these; one that is pending has none.
HOLDING = "CONFIGURING,RUNNING,COMPLETING,SUSPENDED,STOPPED"
# Words of a state: in one of these a node starts no job ...
_OUT = {"DRAIN", "DOWN", "FAIL"}
# ... and in one of these it has some.
_BUSY = {"ALLOCATED", "MIXED", "COMPLETING"}
# What Slurm itself gives as the reason of a node that was away, and that answers again (src/
# slurmctld/node_mgr.c); every other reason is somebody's.
_SLURMS_OWN = ("Not responding", "Node unexpectedly rebooted")
_NAME = re.compile(r"^NodeName=(\S+)", re.MULTILINE)
_STATE = re.compile(r"\bState=(\S+)")
# With who gave it and when behind it; a comment, which may have any words, comes after it.
_REASON = re.compile(r"\bReason=(.*?) \[[^\]@]+@[^\]]*\]", re.DOTALL)


class Slurm:
    """Slurm's jobs."""

    name = "slurm"

    def take_out(self, node: Node, why: str) -> str:
        """No new jobs; those that run continue."""
        seen = _observed(node)
        if seen.is_out and not seen.is_ours:
            return f"Slurm: {seen.state} already, by somebody else: {seen.reason}"
        reason = one_line(f"{MARK} {why}")
        run(["scontrol", "update", f"NodeName={node.name}", "State=DRAIN", f"Reason={reason}"])
        return "Slurm: draining"

    def drained(self, node: Node) -> int | None:
        """Jobs that have the node; None also where Slurm has it as busy and lists no job."""
        command = ["squeue", "--all", "--noheader", f"--nodelist={node.name}"]
        try:
            seen = _observed(node)
            lines = run([*command, f"--states={HOLDING}", "--format=%A"]).split()
        except ActionFailed:
            return None
        if not seen.is_out:
            raise ActionFailed(
                f"Slurm has {node.name} as {seen.state}, where it takes new jobs: somebody resumed "
                "it. Drain it there and run again, or use --data reprovision_action=return"
            )
        if not lines and seen.is_busy:
            return None
        return len(set(lines)) if all(map(str.isdigit, lines)) else None

    def bring_back(self, node: Node, share_percent: int) -> str:
        """Resumed once it is whole, unless it is out for somebody else's reason."""
        if share_percent < 100:
            return "Slurm knows no shares: no jobs until the node is whole"
        seen = _observed(node)
        if not seen.is_out:
            return f"Slurm: {seen.state}"
        if not seen.is_ours:
            return f"Slurm: stays {seen.state}, by somebody else: {seen.reason}"
        run(["scontrol", "update", f"NodeName={node.name}", "State=RESUME"])
        return "Slurm: resumed"


@dataclass(frozen=True)
class _Observed:
    """A node as Slurm has it: state such as "IDLE+DRAIN", and the reason."""

    state: str
    reason: str

    @property
    def is_out(self) -> bool:
        return bool(_OUT & self._words())

    @property
    def is_busy(self) -> bool:
        return bool(_BUSY & self._words())

    @property
    def is_ours(self) -> bool:
        """Whether nobody but us and Slurm itself has a reason to keep it out."""
        return self.reason.startswith((MARK, *_SLURMS_OWN))

    def _words(self) -> set[str]:
        """ "DOWN*+DRAIN" is DOWN and DRAIN; POWERED_DOWN is neither."""
        return set(re.findall(r"[A-Z_]+", self.state))


def _observed(node: Node) -> _Observed:
    output = run(["scontrol", "show", "node", node.name, "--oneliner"])
    state, reason, names = _STATE.search(output), _REASON.search(output), _NAME.findall(output)
    if not state or names != [node.name]:
        # To Slurm n[1-4] and ALL are names of several.
        known = one_line(", ".join(names)) or "nothing"
        raise ActionFailed(f"scontrol takes {node.name} for no node of that name: {known}")
    return _Observed(state[1], one_line(reason[1]) if reason else "no reason given")


TRAFFIC = Slurm()
