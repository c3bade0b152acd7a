"""An acceptance run on a machine in memory: a segment ends whenever somebody asks how far it is."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from b200kit.node.lib import documents
from b200kit.node.lib.documents import structure, unstructure
from b200kit.node.state.acceptance import AcceptancePlan, AcceptanceState, Floor
from tests.unit.acceptance import runs

if TYPE_CHECKING:
    from tests.fake.machine import Machine

UNIT = "b200-acceptance.service"


def answer(machine: Machine, arguments: str, stdin: str) -> str:
    """What `node.pyz acceptance ...` prints; `machine.acceptance` says how the run goes."""
    verb, _, run = arguments.partition(" ")
    acts = {"begin": _begin, "state": _state, "archive": _archive}
    return acts[verb](machine, stdin or run)


def _begin(machine: Machine, stdin: str) -> str:
    asked = json.loads(stdin)
    floors = {metric: structure(Floor, one) for metric, one in asked["floors"].items()}
    count = machine.acceptance["begun"] = machine.acceptance.get("begun", -1) + 1
    plan = runs.plan(
        asked["node"], asked["level"], floors, tuple(machine.acceptance.get("missing", ())),
        f"2026-12-01T08:00:{count:02}Z",
    )  # fmt: skip
    machine.acceptance |= {"plan": unstructure(plan), "done": 0}
    return plan.id


def _state(machine: Machine, _: str) -> str:
    known = machine.acceptance
    if "plan" not in known:
        nothing = AcceptanceState("", "none", "", 0, 0, "", 0, 0.0, ())
        return documents.to_bytes(nothing).decode()
    plan = structure(AcceptancePlan, known["plan"])
    runs_now = machine.is_active(UNIT)
    if known.get("breaks_at") == known["done"]:
        machine.units[UNIT]["active"] = "failed"
    elif runs_now and known["done"] < len(plan.steps):
        known["done"] += 1
    if known.get("reboots_at") == known["done"]:
        del known["reboots_at"]
        machine.execute("systemd-run --quiet --on-active=1 systemctl reboot")
        raise ConnectionResetError("Connection reset by peer")
    done, of = known["done"], len(plan.steps)
    status: Any = "finished" if done == of else "running" if runs_now else "interrupted"
    told = tuple(f"{step.test} {step.segment}: done" for step in plan.steps[:done])
    at = plan.steps[min(done, of - 1)]
    state = AcceptanceState(plan.id, status, plan.level, done, of, at.test, at.segment, 0.0, told)
    return documents.to_bytes(state).decode()


def _archive(machine: Machine, run: str) -> str:
    """The sealed run, by the machine's own host key."""
    plan = structure(AcceptancePlan, machine.acceptance["plan"])
    folder = machine.folder / "sealed"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    outcomes = machine.acceptance.get("outcomes", {})
    path = folder / f"{plan.node}-{plan.id}"
    lines = [runs.line(plan, step, outcomes.get(step.test, "done")) for step in plan.steps]
    runs.write(path, plan, lines)
    runs.seal(path, runs.key_of(machine.folder.parent, plan.node))
    return runs.packed(path, run)
