"""`engine-probe`: the launcher's question before it starts an engine: can it run in here?

It runs by the engine's own Python, as the serving user, in the unit's sandbox and environment. Each
step is a process of its own with a time limit; the first that fails ends the probe. One line on
stderr then says step, what was seen and what to do. Exit 0: the engine may start; 1: it may not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from b200kit.node.lib import documents, hard_timeout, program, timestamp
from b200kit.node.lib.program import claim_stdout, emit
from b200kit.node.lib.readings import printable
from b200kit.node.serving.engine_probe import collective, compilers, cuda, memory, network
from b200kit.node.serving.engine_probe.asked import ProbeFault, ProbeNotApplicable, ProbeRequest
from b200kit.node.state import engine_probe
from b200kit.node.state.engine_probe import ProbedStep, ProbeVerdict

_MOST = 400
_LATE = "it hangs, or the node has too much to do: journalctl -k may say why"


@dataclass(frozen=True)
class ProbeStep:
    """One step: returns what was seen, or raises Fault or NotApplicable."""

    name: str
    take: Callable[[ProbeRequest], str]
    within_s: float = 20.0


STEPS = (
    ProbeStep("loopback", network.loopback),
    ProbeStep("netlink", network.netlink),
    ProbeStep("interface", network.interface),
    ProbeStep("shared-memory", memory.shared_memory),
    ProbeStep("locked-memory", memory.locked_memory),
    ProbeStep("executable-memory", memory.executable_memory),
    ProbeStep("cache", memory.cache),
    ProbeStep("compiler", compilers.compiler),
    ProbeStep("headers", compilers.headers, 60.0),
    ProbeStep("cuda", cuda.cuda, 60.0),
    ProbeStep("triton", compilers.triton, 120.0),
    ProbeStep("all-reduce", collective.all_reduce, 120.0),
    ProbeStep("flashinfer", compilers.kernels, 120.0),
)
BY_NAME = {step.name: step for step in STEPS}


@dataclass(frozen=True)
class Words:
    """The command line: those of the replica, which each step gets, too."""

    replica: list[str]
    asked: ProbeRequest
    into: Path


def main(args: list[str]) -> int:
    """Take every step, write the document, say what failed."""
    words = _parse(args)
    outcomes: list[ProbedStep] = []
    for step in STEPS:
        ended = engine_probe.failure(outcomes)
        outcomes.append(
            ProbedStep(step.name, ProbeVerdict.NOT_REACHED) if ended else _take(step, words.replica)
        )
    _write(words, outcomes)
    failed = engine_probe.failure(outcomes)
    taken = f"{sum(one.took_s for one in outcomes):.1f} s"
    what = f"cannot start its engine: {failed.line}" if failed else f"may start, probed in {taken}"
    print(f"replica {words.asked.replica} {what}", file=sys.stderr, flush=True)
    return 1 if failed else 0


def _parse(args: list[str]) -> Words:
    parser = argparse.ArgumentParser(prog="engine-probe", description=__doc__)
    parser.add_argument("--replica", type=int, required=True)
    parser.add_argument("--kind", required=True, choices=("cuda", "cpu", "stand-in"))
    parser.add_argument("--ranks", type=int, required=True, help="processes on this node")
    parser.add_argument("--address", required=True, help="where they meet")
    parser.add_argument("--into", type=Path, help="the directory of the document")
    options = parser.parse_args(args)
    asked = ProbeRequest(
        options.replica, options.kind, options.ranks, options.address, dict(os.environ)
    )
    directory = options.into or Path(engine_probe.DIRECTORY) / str(asked.replica)
    return Words(args, asked, directory / engine_probe.NAME)


def _take(step: ProbeStep, words: Sequence[str]) -> ProbedStep:
    """One step in a process of its own: an engine's library may end or hang it."""
    began = time.monotonic()
    try:
        done = hard_timeout.run(program.argv("_engine-step", step.name, *words), step.within_s)
        found = _answer(step, done)
    except TimeoutError:
        found = ProbedStep(
            step.name, ProbeVerdict.FAILED, f"no end within {step.within_s:g} s", _LATE
        )
    except OSError as error:
        found = ProbedStep(step.name, ProbeVerdict.FAILED, str(error), "look at the unit's journal")
    took = round(time.monotonic() - began, 3)
    return ProbedStep(found.name, found.result, _short(found.seen), _short(found.remedy), took)


def _answer(step: ProbeStep, done: subprocess.CompletedProcess[bytes]) -> ProbedStep:
    """What its process said; one that ended without an answer has failed."""
    try:
        said = documents.parse(done.stdout)
        return ProbedStep(
            step.name, ProbeVerdict(said["result"]), str(said["seen"]), str(said["remedy"])
        )
    except (ValueError, KeyError, TypeError):
        last = hard_timeout.last_line(done)
        seen = f"its process ended with {done.returncode}: {last}"
        return ProbedStep(step.name, ProbeVerdict.FAILED, seen, "look at the unit's journal")


def _short(text: str) -> str:
    line = printable(" ".join(text.split()))
    return line if len(line) <= _MOST else f"{line[: _MOST - 3]}..."


def _write(words: Words, outcomes: Sequence[ProbedStep]) -> None:
    """Whole or not at all; a place that cannot be written is a step's to name."""
    invocation = os.environ.get("INVOCATION_ID", "")
    found = engine_probe.document(invocation, words.asked.kind, timestamp.now(), outcomes)
    partial = words.into.with_name(f".{words.into.name}.{os.getpid()}")
    try:
        partial.write_text(json.dumps(found) + "\n")
        partial.replace(words.into)
    except OSError as error:
        print(f"{words.into} cannot be written: {error}", file=sys.stderr)


def one(args: list[str]) -> int:
    """`_engine-step NAME ...`: one step in this process, its answer as JSON."""
    # Isolated Python does not read the variable for it.
    sys.dont_write_bytecode = True
    answer = claim_stdout()
    step, asked = BY_NAME[args[0]], _parse(args[1:]).asked
    result, seen, remedy = ProbeVerdict.PASSED, "", ""
    try:
        seen = step.take(asked)
    except ProbeNotApplicable as why:
        result, seen = ProbeVerdict.NOT_APPLICABLE, str(why)
    except ProbeFault as fault:
        result, seen, remedy = ProbeVerdict.FAILED, fault.seen, fault.remedy
    except Exception as error:
        result, seen = ProbeVerdict.FAILED, f"{type(error).__name__}: {error}"
        remedy = "look at the unit's journal"
    emit(answer, {"result": result.value, "seen": seen, "remedy": remedy})
    return 0
