"""`acceptance`: begin a run, go on with it, say how far it is, stop it, hand it over, sign.

    acceptance begin        stdin: {"node", "level", "floors"}; prints the id. An unfinished run of
                            the same request is gone on with
    acceptance run          run what is left of it, and seal it; the unit's command
    acceptance state        an AcceptanceState, as JSON
    acceptance stop         stop the unit, and seal what there is
    acceptance archive ID   a sealed folder: base64 of a tar.gz, then a line {"sha256"}
    acceptance sign         the node's signature under stdin, as under a run

What is refused is one line on stderr, and the exit status 2; what went wrong, 1.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from b200kit.node.acceptance import folder, segment, table
from b200kit.node.acceptance.machine import (
    AcceptanceRefused,
    facts,
    machine,
    observed,
    require_same,
    require_same_tools,
)
from b200kit.node.acceptance.verdict import verdict
from b200kit.node.bandwidth.run import BandwidthRefused, alone, refuse_beside_replicas
from b200kit.node.lib import documents, durable_files, signature, timestamp
from b200kit.node.lib.documents import LARGE
from b200kit.node.lib.readings import command
from b200kit.node.state.acceptance import (
    AcceptancePlan,
    AcceptanceState,
    AcceptedMachine,
    Floor,
    Level,
    SegmentLine,
    Step,
)

UNIT = "b200-acceptance.service"
CONFIRMED = ("failed", "hung", "machinery")
"""Outcomes after which a segment is run once more."""
LINE = 32_768
"""Characters a line of base64: a controller reads no more than 50,000 lines of one command."""


@dataclass(frozen=True)
class AcceptanceRequest:
    """What is asked for: `begin`'s standard input."""

    node: str
    level: Level
    floors: dict[str, Floor]


def unfinished() -> Path | None:
    """The folder of the newest run, where it is not sealed."""
    newest = folder.runs()[-1:]
    return newest[0] if newest and not folder.is_sealed(newest[0]) else None


def attempt_due(step: Step, lines: Sequence[SegmentLine]) -> int | None:
    """Which attempt at a step is due; None where it is over. What did not end well is confirmed."""
    own = [line for line in lines if line.step == step.number]
    if not own:
        return 1
    return 2 if len(own) == 1 and own[0].outcome in CONFIRMED else None


def begin() -> int:
    """Write the plan of a run, or find it, and print its id."""
    request = documents.structure(AcceptanceRequest, documents.request())
    with alone(folder.ROOT / ".begin.lock"):
        refuse_beside_replicas()
        found = machine(observed())
        if open_run := unfinished():
            plan, _ = folder.read(open_run, half="ignored")
            asked = (request.node, request.level, request.floors)
            if asked != (plan.node, plan.level, dict(plan.floors)):
                raise AcceptanceRefused(
                    f"run {plan.id} of level {plan.level} is not finished, and other floors or "
                    "another level are asked for: go on with it, or seal it by `acceptance stop`"
                )
            require_same(plan.machine, found)
        else:
            plan = _plan(request, found)
            durable_files.replace(folder.ROOT / plan.id / folder.PLAN, documents.to_bytes(plan))
            durable_files.sync_directory(folder.ROOT)
    print(plan.id)
    return 0


def _plan(request: AcceptanceRequest, found: AcceptedMachine) -> AcceptancePlan:
    known, tools, missing = facts(found)
    steps = table.steps(request.level, known)
    used = {table.table().test(step.test).tool for step in steps}
    now = timestamp.now()
    # By number, for the clock may be stepped back between two runs.
    number = max((int(path.name.partition("-")[0]) for path in folder.runs()), default=0) + 1
    return AcceptancePlan(
        id=f"{number:04}-{now[:10]}-{request.level}",
        node=request.node,
        level=request.level,
        started_at=now,
        machine=found,
        tools={name: tool for name, tool in tools.items() if name in used},
        missing={name: line for name, line in missing.items() if name in used},
        not_applicable=table.not_applicable(request.level, known),
        floors=request.floors,
        steps=steps,
    )


def run() -> int:
    """Go on with the newest unfinished run until it is sealed."""
    with alone(folder.ROOT / ".lock"):
        path = unfinished()
        if path is None:
            print("acceptance: no run is unfinished", file=sys.stderr)
            return 0
        refuse_beside_replicas()
        folder.mend(path)
        plan, lines = folder.read(path)
        require_same_tools(plan.tools)
        for step in plan.steps:
            while (attempt := attempt_due(step, lines)) is not None:
                line = _segment(segment.Segment(path, plan, tuple(lines), step, attempt))
                folder.append(path, line)
                lines.append(line)
        folder.seal(path, verdict(plan, lines))
    return 0


def _segment(due: segment.Segment) -> SegmentLine:
    """One segment on the machine of the plan; what a boot lost is for its own test to say."""
    state = observed()
    if not due.test.same_as:
        require_same(due.plan.machine, machine(state))
    at = f"{due.step.test} {due.step.segment}, attempt {due.attempt}"
    print(f"acceptance: {at}", file=sys.stderr, flush=True)
    return segment.run(due, state)


def state() -> int:
    """Print how far the newest run is."""
    sys.stdout.write(documents.to_bytes(found_state(), indent=None).decode() + "\n")
    return 0


def found_state() -> AcceptanceState:
    """How far the newest run is; none where there was never one."""
    newest = folder.runs()[-1:]
    if not newest:
        return AcceptanceState("", "none", "", 0, 0, "", 0, 0.0, ())
    # Another may just be writing its line.
    plan, lines = folder.read(newest[0], half="ignored")
    left = [step for step in plan.steps if attempt_due(step, lines) is not None]
    now = left[0] if left else None
    return AcceptanceState(
        id=plan.id,
        status="finished" if folder.is_sealed(newest[0]) else _status(),
        level=plan.level,
        done=len(plan.steps) - len(left),
        of=len(plan.steps),
        test=now.test if now else "",
        segment=now.segment if now else 0,
        left_s=sum(step.timeout_s for step in left),
        last=tuple(_told(line) for line in lines),
    )


def _status() -> Literal["interrupted", "running"]:
    try:
        with alone(folder.ROOT / ".lock"):
            return "interrupted"
    except BandwidthRefused:
        return "running"


def _told(line: SegmentLine) -> str:
    again = f", attempt {line.attempt}" if line.attempt > 1 else ""
    why = f": {line.why}" if line.why else ""
    figures = f", {len(line.values)} figures" if line.values else ""
    return f"{line.test} {line.segment}{again}: {line.outcome}{figures}{why}"


def stop() -> int:
    """Stop the unit, and seal what there is: what was not run is unmeasured."""
    command(["systemctl", "stop", UNIT])
    with alone(folder.ROOT / ".lock"):
        if path := unfinished():
            folder.mend(path)
            folder.seal(path, verdict(*folder.read(path)))
    return 0


def archive(name: str) -> int:
    """Print a sealed run as a tar.gz in base64, and its digest."""
    path = next((path for path in folder.runs() if path.name == name), None)
    if path is None or not folder.is_sealed(path):
        raise AcceptanceRefused(f"no run {name!r} is finished")
    packed = folder.archive(path)
    encoded = base64.b64encode(packed).decode()
    sys.stdout.writelines(f"{encoded[at : at + LINE]}\n" for at in range(0, len(encoded), LINE))
    print(json.dumps({"sha256": hashlib.sha256(packed).hexdigest()}))
    return 0


def sign() -> int:
    """Print the signature under what comes on standard input."""
    content = sys.stdin.buffer.read(LARGE)
    print(signature.sign(content, namespace=signature.ACCEPTANCE).decode(), end="")
    return 0


def main(args: list[str]) -> int:
    """Run one of the commands above."""
    parser = argparse.ArgumentParser(prog="acceptance")
    commands = parser.add_subparsers(required=True)
    for act in (begin, run, state, stop, archive, sign):
        commands.add_parser(act.__name__).set_defaults(act=act)
    commands.choices["archive"].add_argument("name")
    options = vars(parser.parse_args(args))
    # A tool must not outlive us: as an exception, the signal passes through the code that kills it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    act = options.pop("act")
    try:
        return int(act(**options))
    except (AcceptanceRefused, BandwidthRefused, documents.Malformed) as error:
        print(f"acceptance: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"acceptance: stopped: {error}; `acceptance run` goes on", file=sys.stderr)
        return 1
