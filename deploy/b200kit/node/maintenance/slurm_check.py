"""`slurm-check`: Slurm's HealthCheckProgram, Prolog and Epilog, so that only a fit node gets jobs.

slurmd runs it as root, with its node's name in SLURMD_NODENAME and, around a job, SLURM_JOB_ID, and
without a search path (slurm.conf(5), Prolog and Epilog Guide). The judgement is the boot gate's, in
a child with a time limit. A node that is not proven fit is drained with the reason, and the exit
status is 1: slurmd drains a node whose Prolog or Epilog fails, and requeues the job of a Prolog;
of a HealthCheckProgram it only logs it. What this drained, and nothing else, it resumes, between
jobs; on a fit node it does not ask Slurm around a job. contrib/slurm.py, which takes a node out for
its repair, has the same rule of whose a reason is.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from b200kit.node.lib import documents, hard_timeout, program
from b200kit.node.lib.readings import printable
from b200kit.node.state.verdict import Verdict

JUDGED_WITHIN_S = 28.0
"""Longer than NVML's own limit (20 + 2 s), so that its hang is what the finding says."""
SLURM_WITHIN_S = 8.0
"""Of each of two commands. With the time to kill all three 50 s, slurmd kills after 60 s."""
PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin:/opt/slurm/bin"
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


def why_not(expect: str) -> str:
    """Why no job may run here; empty for a node that is proven fit."""
    argv = program.argv("gate", "--expect", expect, "--deadline", "0", "--json")
    try:
        done = hard_timeout.run(argv, JUDGED_WITHIN_S, _environment())
    except OSError:
        return f"not judged within {JUDGED_WITHIN_S:g} s"
    try:
        verdict = documents.decode(Verdict, done.stdout)
    except documents.Malformed:
        return f"not judged: {hard_timeout.last_line(done)}"
    blocking = verdict.blocking
    if not blocking:
        return "" if verdict.fit == "fit" else "nothing was judged"
    more = f" (and {len(blocking) - 1} more)" if len(blocking) > 1 else ""
    return f"{blocking[0].summary}{more}"


def act(name: str, why: str) -> str:
    """Drain a node that is unfit, resume what was drained here; what was done, or nothing.

    Raises OSError and ValueError.
    """
    seen = parse(name, _slurm(show(name)))
    if why and seen.may_be_drained:
        _slurm(drain(name, CHECKED + why))
        return "drained"
    if not why and seen.is_only_checked_out:
        _slurm(resume(name))
        return "resumed"
    return f"stays {seen.state}: {seen.reason}" if seen.is_out else ""


def _slurm(argv: Sequence[str]) -> str:
    done = hard_timeout.run(argv, SLURM_WITHIN_S, _environment())
    if done.returncode:
        raise OSError(hard_timeout.last_line(done))
    return done.stdout.decode(errors="replace")


def _environment() -> dict[str, str]:
    """slurmd's, with where programs are: Slurm's own may be found in a place of the site's."""
    return {**os.environ, "PATH": ":".join(filter(None, (os.environ.get("PATH"), PATH)))}


def main(args: list[str]) -> int:
    """Judge, tell Slurm, say it on one line; 1 on a node that is not proven fit."""
    parser = argparse.ArgumentParser(prog="slurm-check", description=__doc__)
    parser.add_argument("--expect", required=True, help="the expectation, b200kit/expect/1")
    why = why_not(parser.parse_args(args).expect)
    name = os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
    done = ""
    if why or "SLURM_JOB_ID" not in os.environ:
        try:
            done = act(name, why)
        except (OSError, ValueError) as error:
            done = f"Slurm: {error}"
    if said := "; ".join(filter(None, (why, done))):
        print(f"slurm-check: {one_line(said)}", file=sys.stderr)
    return 1 if why else 0


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
