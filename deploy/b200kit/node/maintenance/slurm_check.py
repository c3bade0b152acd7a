"""`slurm-check`: Slurm's HealthCheckProgram, Prolog and Epilog, so that only a fit node gets jobs.

slurmd runs it as root, with its node's name in SLURMD_NODENAME and, around a job, SLURM_JOB_ID, and
without a search path (slurm.conf(5), Prolog and Epilog Guide). The judgement is the boot gate's, in
a child with a time limit. A node that is not proven fit is drained with the reason, and the exit
status is 1: slurmd drains a node whose Prolog or Epilog fails, and requeues the job of a Prolog;
of a HealthCheckProgram it only logs it. What this drained, and nothing else, it resumes, between
jobs; on a fit node it does not ask Slurm around a job.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence

from b200kit.node.lib import documents, hard_timeout, program
from b200kit.node.state import slurm
from b200kit.node.state.verdict import Verdict

JUDGED_WITHIN_S = 28.0
"""Longer than NVML's own limit (20 + 2 s), so that its hang is what the finding says."""
SLURM_WITHIN_S = 8.0
"""Of each of two commands. With the time to kill all three 50 s, slurmd kills after 60 s."""
PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin:/opt/slurm/bin"


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
    seen = slurm.parse(name, _slurm(slurm.show(name)))
    if why and seen.may_be_drained:
        _slurm(slurm.drain(name, slurm.CHECKED + why))
        return "drained"
    if not why and seen.is_only_checked_out:
        _slurm(slurm.resume(name))
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
        print(f"slurm-check: {slurm.one_line(said)}", file=sys.stderr)
    return 1 if why else 0
