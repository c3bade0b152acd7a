"""What a machine in memory answers while it is taken out of service, tried and returned."""

from __future__ import annotations

import argparse
import json
import shlex
from typing import TYPE_CHECKING

from b200kit.node.lib import documents, timestamp
from b200kit.node.maintenance.removal import KeptParts, RemovalPlan
from b200kit.node.state import quarantine
from b200kit.node.state.quarantine import Quarantine

if TYPE_CHECKING:
    from tests.fake.machine import Machine

# The transaction's own commands, beside the node program's.
COMMANDS = (
    r"^true$|^rm -f /var/lib/b200kit/watchdog-mark\.json$|^cat /var/lib/b200kit/reprovision\.json "
)
_STOP_EACH = "for u in "


def execute(machine: Machine, command: str) -> str:
    """One of COMMANDS."""
    del machine
    return "null" if command.startswith("cat ") else ""


def stop_each(machine: Machine, command: str) -> str:
    """`close` of b200kit/reprovision/actions/quarantine.py."""
    for unit in shlex.split(command.partition(_STOP_EACH)[2].partition(";")[0]):
        machine.units.setdefault(unit, {})["active"] = "inactive"
    return ""


def mark(machine: Machine, arguments: str) -> str:
    """The node program's `quarantine`, with the mark that it really writes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("act")
    parser.add_argument("--who", default="")
    parser.add_argument("--why", default="")
    parser.add_argument("--for", dest="seconds", type=float, default=0.0)
    asked = parser.parse_args(shlex.split(arguments))
    before = (
        documents.decode(Quarantine, machine.text(quarantine.PATH))
        if quarantine.PATH in machine.files
        else None
    )
    if asked.act == "put":
        now = quarantine.put(before, asked.who, asked.why, timestamp.now())
    elif asked.act == "release" or before is None:
        machine.files.pop(quarantine.PATH, None)
        return "in service"
    elif asked.act == "admit":
        times = timestamp.now(), timestamp.now(asked.seconds)
        host = machine.observation({"files": [], "secrets": {}, "units": [], "placement": []})[
            "host"
        ]
        until = host["uptime_s"] + asked.seconds
        now = before.admitted(asked.who, times, host["boot_id"], until)
    else:
        now = before.shut()
    machine.write(quarantine.PATH, documents.to_bytes(now))
    return str(now)


def drain(machine: Machine, arguments: str) -> str:
    """The node program's `drain`: nothing is ever open."""
    del machine
    return json.dumps({"open": 0}) if arguments.startswith("count") else f"drain {arguments}"


def removal(machine: Machine, arguments: str, stdin: str) -> str:
    """The node program's `removal`, over all files that were ever put there."""
    kept = documents.structure(KeptParts, json.loads(stdin))
    going = tuple(sorted(path for path in machine.files if path not in kept.files))
    units = tuple(path.rpartition("/")[2] for path in going if path.endswith(".service"))
    if arguments == "folders":
        machine.files = {path: machine.files[path] for path in kept.files if path in machine.files}
    some = ("some",) if going else ()
    plan = RemovalPlan(units=units, files=going, packages=some, folders=some)
    return documents.to_bytes(plan).decode()
