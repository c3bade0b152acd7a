"""`proof`: what this node has proven, until when, signed with its host key.

It follows each look at the node. The evidence is what others left: the last look, the gate's
verdict of this boot, the smoke test, its answers, the bandwidth. Exit 0 when a proof was issued,
whatever its standing; 1 with one line when it could not be signed or kept: the one before then runs
out by itself; 2 for a bad configuration.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from b200kit.node.client.serving_config import ConfigError, Serving, load
from b200kit.node.events import spool
from b200kit.node.lib import boot_clock, documents, durable_files
from b200kit.node.lib.managed_files import LOOK, PROOF, STATE_DIRECTORY, note
from b200kit.node.lib.readings import attempt
from b200kit.node.proof import document, news, signature, sources
from b200kit.node.proof.clock import Now
from b200kit.node.proof.document import Proof, ProofRules, ServingNow
from b200kit.node.proof.evidence import KINDS
from b200kit.node.proof.sources import Left
from b200kit.node.state.event import Event
from b200kit.node.state.watch import Look
from b200kit.node.state.watchdog import ReplicaState

SIGNATURE = PROOF.with_name(f"{PROOF.name}.sig")


def rules_of(path: Path) -> ProofRules:
    """What the controller asks for. Raises ConfigError with one line that names the file."""
    try:
        rules = documents.load(ProofRules, path)
    except (OSError, documents.Malformed) as error:
        raise ConfigError(str(error)) from None
    if absent := {*KINDS} - {*rules.ttl_s}:
        raise ConfigError(f"{path}: ttl_s: {min(absent)} is missing")
    return rules


def left(serving: Path) -> Left:
    """What others left on this node."""
    files = {"gate": "verdict.json", "smoke": "smoke.json", "bandwidth": "bandwidth.json"}
    found = {key: attempt(partial(note, STATE_DIRECTORY / name)) for key, name in files.items()}
    configured = sources.digest(documents.read(serving))
    return Left(look=attempt(lambda: note(LOOK)), serving=configured, **found)


def serving_now(look: Look | None, configured: Serving) -> ServingNow:
    """The replicas that ran at the last look and are in the gateway, and their GPUs.

    On a node that was taken out none serves, but for those of one on trial.
    """
    running = (look.running if look and not look.is_taken_out else None) or ()
    replicas = [
        one for one in configured.replicas if one.index in running and not is_out(one.index)
    ]
    gpus = {uuid for one in replicas for uuid in one.uuids}
    return ServingNow(tuple(one.index for one in replicas), len(gpus))


def is_out(replica: int) -> bool:
    """Whether the watchdog took a replica out of the gateway."""
    path = STATE_DIRECTORY / "watchdog" / f"vllm{replica}.json"
    return (documents.remembered(ReplicaState, path) or ReplicaState()).out


def before() -> Proof | None:
    """The proof before; None where there is none that is understood."""
    return documents.remembered(Proof, PROOF)


def line(then: Proof | None, now: Proof) -> str:
    """What changed, for the journal; empty where the standing is as it was."""
    return "" if then is not None and then.standing == now.standing else words(now)


def words(proof: Proof) -> str:
    """Its standing, and why it is not valid."""
    return f"proof {proof.standing}" + (f": {proof.why}" if proof.why else "")


def report(then: Proof | None, now: Proof) -> None:
    """An event where the site does not know the standing yet."""
    path = PROOF.with_name("reported")
    known = path.read_text(encoding="utf-8") if path.exists() else ""
    if not (standing := news.standing(then, now, known)):
        return
    replicas = now.serving.replicas
    spool.put(Event(f"proof.{standing}", words(now), "proof.valid", replicas=replicas))
    durable_files.replace(path, standing)


def keep(proof: Proof) -> None:
    """Sign a proof and put both files in their places, each in one step. Raises OSError."""
    data = documents.to_bytes(proof)
    signed = signature.sign(data)
    # Between the two a reader finds a proof that its signature does not fit, and reads it again.
    durable_files.replace(PROOF, data)
    durable_files.replace(SIGNATURE, signed)


def main(args: list[str]) -> int:
    """`proof --rules FILE --serving FILE`."""
    parser = argparse.ArgumentParser(prog="proof", description=__doc__)
    parser.add_argument("--rules", type=Path, required=True, help="how long evidence holds")
    parser.add_argument("--serving", type=Path, required=True, help="serving.json")
    options = parser.parse_args(args)
    try:
        rules, configured = rules_of(options.rules), load(options.serving)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    found, moment, then = left(options.serving), boot_clock.now(), before()
    now = Now(moment.boot_id, moment.seconds, time.time())
    serving = serving_now(documents.understood(Look, found.look), configured)
    found = replace(found, replicas=serving.replicas)
    proof = document.issued(then, sources.evidence(found, now, rules), serving, now, rules)
    try:
        keep(proof)
        report(then, proof)
    except OSError as error:
        print(f"proof: it could not be issued: {error}", file=sys.stderr)
        return 1
    if text := line(then, proof):
        print(text, file=sys.stderr)
    return 0
