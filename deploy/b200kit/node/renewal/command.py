"""`renew`: latency and answers are measured again before they run out, while nobody asks anything.

The smoke test is the one of `measure`, and it yields: where a request of others comes meanwhile, or
somebody begins to work on the node, it ends at once and nothing is written; it is tried again until
the site's hours for it are over. A node that is out of service, drained or worked on is not
measured. The next look issues the proof. Exit 0 when nothing was due, it passed, or the node was
never idle; 1 with one line when the test failed, or its result could not be kept; 2 for a bad
configuration.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from b200kit.node.client import client_health
from b200kit.node.client.golden.compare import AnswersJudgement
from b200kit.node.client.golden.reference import Reference
from b200kit.node.client.golden.replicas import GoldenResult, against
from b200kit.node.client.serving_config import ConfigError, ServingConfig, load
from b200kit.node.client.smoke_result import BaselineComparison, SmokeResult
from b200kit.node.lib import boot_clock, documents, durable_files, hours, lock, timestamp
from b200kit.node.lib.hours import Hours
from b200kit.node.lib.managed_files import STATE_DIRECTORY
from b200kit.node.renewal.attempts import Attempts, RenewalOutcome
from b200kit.node.renewal.node import ThisNode
from b200kit.node.state import agent
from b200kit.node.state.agent import AgentState
from b200kit.node.state.proof import PASS, NodeProof, ProofRules

MEASURED = ("latency", "answers")
"""What one smoke test leaves. Bandwidth needs the GPUs for itself."""
RECORD = STATE_DIRECTORY / "smoke.json"
LOCK = Path("/run/b200kit/renewal.lock")


@dataclass(frozen=True)
class Due:
    """*kinds*: those to renew; *why*: why they are due, or why nothing is to be measured."""

    kinds: tuple[str, ...]
    why: str


def due(proof: NodeProof | None, boot_id: str, boot_s: float, when_left: float) -> Due:
    """What is due of a proof at a moment of a boot, in seconds since that began.

    *when_left*: the share of its time to live below which evidence is due. What failed, or holds
    for another configuration, is no matter of age: the controller knows what it is compared with.
    """
    if proof is None:
        return Due((), "there is no proof that is understood")
    if proof.boot_id != boot_id:
        return Due((), "no proof was issued since the boot")
    at_s = proof.issued_s + max(0.0, boot_s - proof.boot_s)
    asked = [one for one in proof.required if one.kind in MEASURED]
    for one in asked:
        if one.result != PASS:
            return Due((), f"{one.kind}: {one.result}: {one.why}: b200 deploy measures that again")
    late = [one for one in asked if one.left_s(at_s) < when_left * one.ttl_s]
    left = "; ".join(
        f"{one.kind}: {one.left_s(at_s):.0f} of {one.ttl_s:.0f} s are left" for one in late or asked
    )
    return Due(tuple(one.kind for one in late), left or "neither latency nor answers are required")


@dataclass(frozen=True)
class RenewalPlan:
    """When it may be measured (hours of the day, seconds of idleness), and when it is due."""

    window: Hours
    idle_s: float
    when_left: float


def plan_of(path: Path) -> RenewalPlan | None:
    """`renew` of the proof's rules; None where it has none. Raises ConfigError with one line."""
    try:
        asked = documents.load(ProofRules, path).renew
        if asked is None:
            return None
        return RenewalPlan(hours.parsed(asked.window), asked.idle_s, asked.when_left)
    except documents.Malformed as error:
        raise ConfigError(str(error)) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from None


def is_alone(path: Path | None = None) -> bool:
    """Whether no other renewal runs; none begins until this process ends."""
    handle = lock.opened(path or LOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return False
    return True


def due_now(plan: RenewalPlan) -> Due:
    """What is due of the proof that lies here."""
    boot_id, boot_s = boot_clock.now()
    known = documents.remembered(AgentState, Path(agent.PATH))
    return due(known.proof if known else None, boot_id, boot_s, plan.when_left)


def renewed(plan: RenewalPlan, serving: ServingConfig) -> RenewalOutcome:
    """Measure once nobody is disturbed by it, until the hours are over."""
    before = documents.remembered(SmokeResult, RECORD)

    def judge(smoke: SmokeResult) -> SmokeResult:
        return judged_here(smoke, before, serving.reference())

    attempts = Attempts(ThisNode(serving, plan.window), plan.idle_s, judge, say)
    return asyncio.run(attempts.until_measured())


def concluded(outcome: RenewalOutcome, asked: Due) -> int:
    """Keep what was measured, or say that nothing was. The exit status."""
    kinds = " and ".join(asked.kinds)
    found = outcome.found
    if found is None:
        say(f"{kinds} could not be measured again: {outcome.why} ({asked.why})")
        return 0
    try:
        durable_files.replace(RECORD, documents.to_bytes(found))
    except OSError as error:
        say(f"the result could not be kept: {error}")
        return 1
    why = "" if found.verdict == "pass" else f": {outcome.why}"
    say(f"{kinds} measured again: {found.verdict}{why}")
    return 0 if found.verdict == "pass" else 1


def say(line: str) -> None:
    """One line for the journal."""
    print(f"renew: {line}", file=sys.stderr, flush=True)


def main(args: list[str]) -> int:
    """`renew --rules FILE --serving FILE`."""
    parser = argparse.ArgumentParser(prog="renew", description=__doc__)
    parser.add_argument("--rules", type=Path, required=True, help="when it is due, and may be done")
    parser.add_argument("--serving", type=Path, required=True, help="serving.json")
    options = parser.parse_args(args)
    try:
        plan, serving = plan_of(options.rules), load(options.serving)
        # No replica's CPU is the client's, also while it waits.
        client_health.pin(serving.client_cpus)
    except (ConfigError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    if plan is None:
        say("the inventory leaves it to the controller")
        return 0
    asked = due_now(plan)
    if idle := _reason(plan, asked):
        say(idle)
        return 0
    return concluded(renewed(plan, serving), asked)


def _reason(plan: RenewalPlan, asked: Due) -> str:
    """Why there is nothing to do; empty where there is."""
    if not asked.kinds:
        return f"nothing is due: {asked.why}"
    if not plan.window.left_s(time.time()):
        return f"{asked.why}, and it is not the time of day for it"
    return "" if is_alone() else "another one is at it"


COMPARISON = BaselineComparison(
    "none", "the node measured itself, and its record is the controller's"
)


def judged_here(
    smoke: SmokeResult, before: SmokeResult | None, reference: Reference | None
) -> SmokeResult:
    """A result as measured, with its answers judged. *before*: the one it takes over from.

    It holds for the state that *before* held for (`fingerprint`) where the servers are the same
    processes; otherwise the controller measures again, as it does not know that one.
    """
    kept = replace(smoke, comparison=COMPARISON)
    golden = smoke.golden
    if isinstance(golden, GoldenResult) and golden.answers:
        kept = kept.with_answers(_found(golden, reference))
    if before and _are_same_servers(smoke, before):
        kept = replace(kept, fingerprint=before.fingerprint)
    return kept


def _found(golden: GoldenResult, reference: Reference | None) -> AnswersJudgement:
    if reference is None:
        return AnswersJudgement("unmeasured", "no reference of this configuration lies on the node")
    return against(reference.answers, reference.of, golden.said, reference.tolerance)


def _are_same_servers(smoke: SmokeResult, before: SmokeResult) -> bool:
    """Whether every server is older than the test before; what is not known is not so."""
    ages = smoke.conditions.server_ages_s
    if not ages:
        return False
    try:
        passed = timestamp.parse(smoke.taken_at) - timestamp.parse(before.taken_at)
    except ValueError:
        return False
    return all(age > passed.total_seconds() for age in ages)
