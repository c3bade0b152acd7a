"""Slurm: drained by `scontrol`, its jobs counted by `squeue`, resumed when it is whole.

Slurm knows the node by the name that the inventory has for it, and gives no shares: a node comes
back at 100. A node that somebody else drained, set DOWN or FAIL keeps that person's reason and is
not resumed here; what Slurm itself says of a node that was away is taken over. Tried on a real
slurmctld of 22.05 (tests/e2e/test_slurm.py); who runs it must be an administrator of Slurm.
"""

from __future__ import annotations

import time

from b200kit.node.lib.readings import is_digits
from b200kit.node.state import slurm
from b200kit.reprovision.actions import ActionFailed
from b200kit.reprovision.traffic.run_command import one_line, run
from b200kit.run.node import Node

# A job has the node's GPUs in these; one that is pending has none.
HOLDING = "CONFIGURING,RUNNING,COMPLETING,SUSPENDED,STOPPED"
# Longer than KillWait, 30 s by default, after which Slurm sends SIGKILL.
_END_WITHIN_S = 60.0


class Slurm:
    """Slurm's jobs."""

    name = "slurm"

    def take_out(self, node: Node, why: str) -> str:
        """No new jobs; those that run continue."""
        seen = _observed(node)
        if seen.is_out and not seen.is_ours:
            return f"Slurm: {seen.state} already, by somebody else: {seen.reason}"
        run(slurm.drain(node.name, f"{slurm.MARK} {why}"))
        return "Slurm: draining"

    def drained(self, node: Node) -> int | None:
        """Jobs that have the node; None also where Slurm has it as busy and lists no job."""
        try:
            seen = _observed(node)
            jobs = _jobs(node)
        except ActionFailed:
            return None
        if not seen.is_out:
            raise ActionFailed(
                f"Slurm has {node.name} as {seen.state}, where it takes new jobs: somebody resumed "
                "it. Drain it there and run again, or use --data reprovision_action=return"
            )
        return len(jobs) if jobs or not seen.is_busy else None

    def cut(self, node: Node) -> str:
        """Cancel the jobs that have the node, on all of their nodes, and wait for their end."""
        jobs = _jobs(node)
        if jobs:
            run(["scancel", *jobs])
        end = time.monotonic() + _END_WITHIN_S
        while (left := self.drained(node)) != 0 and time.monotonic() < end:
            time.sleep(1)
        return f"Slurm: cancelled {', '.join(jobs) or 'no job'}{'' if left == 0 else ', not ended'}"

    def bring_back(self, node: Node, share_percent: int) -> str:
        """Resumed once it is whole, unless it is out for somebody else's reason."""
        if share_percent < 100:
            return "Slurm knows no shares: no jobs until the node is whole"
        seen = _observed(node)
        if not seen.is_out:
            return f"Slurm: {seen.state}"
        if not seen.is_ours:
            return f"Slurm: stays {seen.state}, by somebody else: {seen.reason}"
        run(slurm.resume(node.name))
        return "Slurm: resumed"


def _observed(node: Node) -> slurm.SlurmNode:
    try:
        return slurm.parse(node.name, run(slurm.show(node.name)))
    except ValueError as error:
        raise ActionFailed(str(error)) from None


def _jobs(node: Node) -> list[str]:
    command = ["squeue", "--all", "--noheader", f"--nodelist={node.name}"]
    output = run([*command, f"--states={HOLDING}", "--format=%A"])
    jobs = sorted(set(output.split()))
    if not all(map(is_digits, jobs)):
        raise ActionFailed(f"squeue lists what are no jobs: {one_line(output)}")
    return jobs


TRAFFIC = Slurm()
