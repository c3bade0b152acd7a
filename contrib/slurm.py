#!/usr/bin/env python3
"""Slurm as one that sends work to nodes: `traffic = ["haproxy", ["b200-slurm"]]`.

    b200-slurm drain NODE             no new jobs; those that run continue. Why is in B200_WHY
    b200-slurm status NODE            how many jobs have the node
    b200-slurm undrain NODE PERCENT   resumed at 100; Slurm gives no shares
    b200-slurm cut NODE               cancel the jobs that have the node, and wait for their end

Slurm must know the node by its name in the inventory, and whoever runs this as an administrator.
A node that somebody else drained, set DOWN or FAIL keeps that person's reason and is not resumed;
what Slurm itself says of a node that was away is taken over. Exit status 0: done; 2: a person must
act; 1: it failed, and the number of jobs is unknown. Tried on a real slurmctld of 22.05.
"""

import os
import re
import subprocess
import sys
import time

MARK = "b200kit:"
# Words of a state: in one of these a node starts no job, in one of those it has some.
OUT = {"DRAIN", "DOWN", "FAIL"}
BUSY = {"ALLOCATED", "MIXED", "COMPLETING"}
# What Slurm itself gives as the reason of a node that was away, and that answers again (src/
# slurmctld/node_mgr.c); every other reason is somebody's.
SLURMS_OWN = ("Not responding", "Node unexpectedly rebooted")
# A job has the node's GPUs in these; one that is pending has none.
HOLDING = "CONFIGURING,RUNNING,COMPLETING,SUSPENDED,STOPPED"
# Longer than KillWait, 30 s by default, after which Slurm sends SIGKILL.
END_WITHIN_S = 60


def call(*argv: str) -> str:
    """What a program of Slurm prints; ends with 1 where it fails."""
    # Defaults for squeue that a person may have set: one that shows only his own jobs would hide
    # those of everybody else.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SQUEUE_")}
    try:
        done = subprocess.run(
            argv, env=environment, capture_output=True, text=True, errors="replace", timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        sys.exit(f"{argv[0]} gave no answer: {error}")
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        sys.exit(f"{argv[0]} exited {done.returncode}: {said[-1]}")
    return done.stdout


def observe(node: str) -> tuple[str, bool, str, bool]:
    """State ("IDLE+DRAIN"), whether it is out, the reason, and whether that is ours or Slurm's."""
    said = call("scontrol", "show", "node", node, "--oneliner")
    names = re.findall(r"^NodeName=(\S+)", said, re.MULTILINE)
    state = re.search(r"\bState=(\S+)", said)
    if names != [node] or not state:
        # To Slurm n[1-4] and ALL are names of several.
        sys.exit(f"scontrol takes {node} for no node of that name: {', '.join(names) or 'nothing'}")
    # With who gave it and when behind it; a comment, which may have any words, comes after it.
    found = re.search(r"\bReason=(.*?) \[[^\]@]+@[^\]]*\]", said, re.DOTALL)
    reason = " ".join(found[1].split()) if found else "no reason given"
    return state[1], bool(OUT & words(state[1])), reason, reason.startswith((MARK, *SLURMS_OWN))


def words(state: str) -> set[str]:
    """ "DOWN*+DRAIN" is DOWN and DRAIN; POWERED_DOWN is neither."""
    return set(re.findall("[A-Z_]+", state))


def jobs_on(node: str) -> list[str]:
    """The numbers of the jobs that have the node."""
    asked = ("squeue", "--all", "--noheader", f"--nodelist={node}")
    found = sorted(set(call(*asked, f"--states={HOLDING}", "--format=%A").split()))
    if not all(job.isascii() and job.isdigit() for job in found):
        sys.exit(f"squeue lists what are no jobs: {' '.join(found)}")
    return found


def drain(node: str) -> str:
    state, is_out, reason, is_ours = observe(node)
    if is_out and not is_ours:
        return f"{state} already, by somebody else: {reason}"
    why = f"Reason={MARK} {os.environ.get('B200_WHY', '')}"
    call("scontrol", "update", f"NodeName={node}", "State=DRAIN", why)
    return "draining"


def status(node: str) -> str:
    state, is_out, _, _ = observe(node)
    jobs = jobs_on(node)
    if not is_out:
        what = (
            f"Slurm has {node} as {state}, where it takes new jobs: somebody resumed it. Drain it"
        )
        print(
            f"{what} there and run again, or use --data reprovision_action=return", file=sys.stderr
        )
        sys.exit(2)
    if not jobs and BUSY & words(state):
        sys.exit(f"Slurm has {node} as {state}, and lists no job on it")
    return str(len(jobs))


def undrain(node: str, percent: str) -> str:
    if percent != "100":
        return "Slurm knows no shares: no jobs until the node is whole"
    state, is_out, reason, is_ours = observe(node)
    if not is_out:
        return state
    if not is_ours:
        return f"stays {state}, by somebody else: {reason}"
    call("scontrol", "update", f"NodeName={node}", "State=RESUME")
    return "resumed"


def cut(node: str) -> str:
    jobs = jobs_on(node)
    if jobs:
        call("scancel", *jobs)
    end = time.monotonic() + END_WITHIN_S
    while (left := jobs_on(node)) and time.monotonic() < end:
        time.sleep(1)
    return f"cancelled {', '.join(jobs) or 'no job'}{', not ended' if left else ''}"


match sys.argv[1:]:
    case ["drain", node]:
        print(drain(node))
    case ["status", node]:
        print(status(node))
    case ["undrain", node, percent]:
        print(undrain(node, percent))
    case ["cut", node]:
        print(cut(node))
    case _:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
