"""A node as Slurm has it, read from scontrol's line, and whose the reason is. Pure.

Read by the node's own check, which lets no jobs onto an unfit node. contrib/slurm.py, which takes a
node out for its repair, has the same rule of whose a reason is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from b200kit.node.lib.printable import printable

MARK = "b200kit:"
CHECKED = f"{MARK} slurm-check: "
"""What a node's own check drained it for, and may resume it from; a repair has another reason."""
MOST_CHARACTERS = 200
# Words of a state: in one of these a node starts no job.
_OUT = {"DRAIN", "DOWN", "FAIL"}
# With no other word a drained node has nothing that RESUME would undo besides the drain.
_ONLY_DRAINED = {"DRAIN", "IDLE", "RESERVED", "PLANNED", "ALLOCATED", "MIXED", "COMPLETING"}
# What Slurm itself gives as the reason of a node that was away, and that answers again (src/
# slurmctld/node_mgr.c); every other reason is somebody's.
_SLURMS_OWN = ("Not responding", "Node unexpectedly rebooted")
_NAME = re.compile(r"^NodeName=(\S+)", re.MULTILINE)
_STATE = re.compile(r"\bState=(\S+)")
# With who gave it and when behind it; a comment, which may have any words, comes after it.
_REASON = re.compile(r"\bReason=(.*?) \[[^\]@]+@[^\]]*\]", re.DOTALL)


@dataclass(frozen=True)
class SlurmNode:
    """A node as Slurm has it: state such as "IDLE+DRAIN", and the reason."""

    state: str
    reason: str

    @property
    def is_out(self) -> bool:
        """Whether it gets no new jobs."""
        return bool(_OUT & self._words())

    @property
    def is_ours(self) -> bool:
        """Whether nobody but us and Slurm itself has a reason to keep it out."""
        return self.reason.startswith((MARK, *_SLURMS_OWN))

    @property
    def may_be_drained(self) -> bool:
        """Whether a drain would take nothing from anybody, and would change something."""
        return "DRAIN" not in self._words() and (self.is_ours or not self.is_out)

    @property
    def is_only_checked_out(self) -> bool:
        """Whether the node's own check drained it, and no other state or reason stands."""
        words = self._words()
        return "DRAIN" in words and words <= _ONLY_DRAINED and self.reason.startswith(CHECKED)

    def _words(self) -> set[str]:
        """ "DOWN*+DRAIN" is DOWN and DRAIN; POWERED_DOWN is neither."""
        return set(re.findall(r"[A-Z_]+", self.state))


def parse(name: str, output: str) -> SlurmNode:
    """The node of this name; ValueError when that is not what was printed."""
    state, reason, names = _STATE.search(output), _REASON.search(output), _NAME.findall(output)
    if not state or names != [name]:
        # To Slurm n[1-4] and ALL are names of several.
        known = one_line(", ".join(names)) or "nothing"
        raise ValueError(f"scontrol takes {name} for no node of that name: {known}")
    return SlurmNode(state[1], one_line(reason[1]) if reason else "no reason given")


def show(name: str) -> list[str]:
    """The command that prints what `parse` reads."""
    return ["scontrol", "show", "node", name, "--oneliner"]


def drain(name: str, reason: str) -> list[str]:
    """The command that lets no new job onto a node."""
    return ["scontrol", "update", f"NodeName={name}", "State=DRAIN", f"Reason={one_line(reason)}"]


def resume(name: str) -> list[str]:
    """The command that lets jobs onto it again."""
    return ["scontrol", "update", f"NodeName={name}", "State=RESUME"]


def one_line(text: str) -> str:
    """A text from elsewhere as an argument can hold it: short, printable characters."""
    return printable(" ".join(text.split()))[:MOST_CHARACTERS]
