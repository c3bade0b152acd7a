"""`drain`: this node's gateway takes no new requests; those under way end in peace and are counted.

    drain begin | drain count | drain end

All servers behind the node's endpoints are drained: its replicas, and the nodes of the fleet behind
its fleet endpoint, for those streams, too, end with this node. Health says 503 then. What somebody
had set aside before stays so at the end. `count` prints {"open": N} from HAProxy's own numbers, or
{"open": null, "why"}: what is unknown is never none.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from b200kit.node.facts.processes import members
from b200kit.node.lib import documents, durable_files
from b200kit.node.lib.readings import command
from b200kit.node.serving.gateway import haproxy
from b200kit.node.serving.gateway.haproxy import UNIT, HAProxyError

NOTE = Path("/run/b200kit/drained.json")
"""What this program did: where HAProxy's own memory of it lies, which goes with it at a boot."""
BACKENDS = (haproxy.BACKEND, "nodes")
_DRAIN = 8
"""Bit of srv_admin_state: set aside by a drain (management.txt of HAProxy, show servers state)."""
_OVER = ("inactive", "failed")
_USAGE = "usage: drain begin | count | end"


@dataclass(frozen=True)
class DrainNote:
    """Servers that a drain took out, as BACKEND/NAME."""

    servers: tuple[str, ...]


def begin(path: Path = NOTE) -> str:
    """Drain every server in rotation; noted before it is done, so that `end` knows after a crash.

    While that note lies there the agent repairs nothing, and puts nothing back into rotation.
    """
    if _is_over():
        return f"{UNIT} does not run: nothing to drain"
    here = [row for row in haproxy.states() if row["be_name"] in BACKENDS]
    free = [row for row in here if not int(row["srv_admin_state"]) & _DRAIN]
    before = _noted(path) or DrainNote(())
    servers = {*before.servers, *(_name(row) for row in free)}
    durable_files.replace(path, documents.to_bytes(DrainNote(tuple(sorted(servers)))))
    for row in free:
        haproxy.set_state(row["srv_name"], "drain", backend=row["be_name"])
    return f"{len(here)} servers drained"


def end(path: Path = NOTE) -> str:
    """Back in rotation what `begin` took out; also where HAProxy does not run, and only knows."""
    ours = _noted(path)
    if ours is None:
        return "nothing was drained"
    if _is_over():
        haproxy.strike(ours.servers)
    else:
        for row in haproxy.states():
            if _name(row) in ours.servers:
                haproxy.set_state(row["srv_name"], "ready", backend=row["be_name"])
    path.unlink()
    return f"{len(ours.servers)} servers are back"


def _noted(path: Path) -> DrainNote | None:
    try:
        return documents.load(DrainNote, path)
    except FileNotFoundError:
        return None


def _name(row: dict[str, str]) -> str:
    return f"{row['be_name']}/{row['srv_name']}"


def count() -> dict[str, Any]:
    """How many requests are open at this node's gateway, those of processes before a reload too."""
    try:
        shown = unit()
        if shown["ActiveState"] in _OVER:
            return {"open": 0}
        return {"open": open_requests(haproxy.ask("show stat")) + _before_reload(shown)}
    except (HAProxyError, OSError, KeyError, ValueError) as error:
        return {"open": None, "why": str(error) or type(error).__name__}


def open_requests(statistics: str) -> int:
    """Streams of our backends, waiting ones included ("scur", management.txt of HAProxy 9.1)."""
    rows = csv.DictReader(io.StringIO(statistics.removeprefix("# ")))
    counted = (*BACKENDS, haproxy.FLOOR)
    own = [row for row in rows if row.get("svname") == "BACKEND" and row.get("pxname") in counted]
    if not any(row["pxname"] == haproxy.BACKEND for row in own):
        raise HAProxyError(f"HAProxy knows no backend {haproxy.BACKEND}")
    return sum(int(row["scur"]) for row in own)


def _before_reload(shown: dict[str, str]) -> int:
    """Workers besides the present one: each lives for at least one stream that is still open."""
    pids = set(members(shown["ControlGroup"])) - {int(shown["MainPID"])}
    return max(len(pids) - 1, 0)


def unit() -> dict[str, str]:
    """What systemd says of the gateway's unit. Raises OSError."""
    requested = ["systemctl", "show", UNIT, "-p", "ActiveState,ControlGroup,MainPID"]
    return dict(line.split("=", 1) for line in command(requested).splitlines() if "=" in line)


def _is_over() -> bool:
    """Whether systemd has seen the gateway's last process end, or never saw one."""
    return unit().get("ActiveState") in _OVER


def main(args: list[str]) -> int:
    """See _USAGE; 1 with one line when the gateway does not do it."""
    acts = {"begin": begin, "end": end, "count": lambda: json.dumps(count())}
    if len(args) != 1 or args[0] not in acts:
        print(_USAGE, file=sys.stderr)
        return 2
    try:
        print(acts[args[0]]())
    except (HAProxyError, OSError, ValueError) as error:
        print(f"drain {args[0]}: {error}", file=sys.stderr)
        return 1
    return 0
