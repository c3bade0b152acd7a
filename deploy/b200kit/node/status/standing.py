"""`standing`: who serves here now, who does not and why, under which proof, as one small document.

It is the agent's file with what others may change at any time: the marks, who is in rotation, the
share. Ages are by the clock since the boot. What cannot be read is unmeasured.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from b200kit.node.lib import boot_clock, managed_files, timestamp
from b200kit.node.lib.managed_files import note
from b200kit.node.lib.readings import attempt, is_unmeasured, reason, unmeasured
from b200kit.node.serving.gateway import drain, haproxy
from b200kit.node.serving.gateway.haproxy import GatewayServer, HAProxyError
from b200kit.node.status import shares

SCHEMA = "b200kit/standing/1"
SERVING = Path("/etc/b200kit/serving.json")
_NOTES = ("watch", "watchdog", "proof", "quarantine")


def of(notes: Mapping[str, Any], serving: Any, rotation: Any) -> dict[str, Any]:
    """The document, without its time. *rotation*: the gateway's servers, or why not known."""
    group = serving.get("group") if isinstance(serving, dict) else None
    return {
        "schema": SCHEMA,
        **{name: notes[name] for name in _NOTES},
        "mark": notes["watchdog_mark"],
        "headless": isinstance(group, dict) and group.get("headless") is True,
        "replicas": _replicas(serving, rotation),
    }


def _replicas(serving: Any, rotation: Any) -> Any:
    """Each replica: its GPUs, what the gateway calls its state, and whether it gets requests."""
    if serving is None or is_unmeasured(serving):
        return serving
    entries = serving.get("replicas") if isinstance(serving, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return unmeasured(f"{SERVING} lists no replicas")
    return [
        {"index": entry.get("index"), "gpus": len(entry.get("uuids") or ()), **_in(rotation, entry)}
        for entry in entries
    ]


def _in(rotation: Any, entry: Mapping[str, Any]) -> dict[str, Any]:
    """How the gateway has one replica."""
    if (why := reason(rotation)) is not None:
        return dict.fromkeys(("status", "takes_requests", "requests"), unmeasured(why))
    name = f"vllm{entry.get('index')}"
    found: Sequence[GatewayServer] = [server for server in rotation if server.name == name]
    if not found:
        return {"status": "not in the gateway", "takes_requests": False, "requests": 0}
    server = found[0]
    return {
        "status": server.status,
        "takes_requests": server.takes_requests,
        "requests": server.sessions,
    }


def _rotation() -> Any:
    try:
        return haproxy.servers()
    except HAProxyError as error:
        return unmeasured(str(error))


def main(args: list[str]) -> int:
    """`standing`."""
    argparse.ArgumentParser(prog="standing", description=__doc__).parse_args(args)
    boot_id, seconds = boot_clock.now()
    serving = attempt(lambda: note(SERVING))
    now = {"at": timestamp.now(), "boot_id": boot_id, "boot_s": round(seconds, 1)}
    drained, share = attempt(lambda: note(drain.NOTE)), shares.now()
    document = of(managed_files.notes(), serving, _rotation())
    print(json.dumps({**document, **now, "drained": drained, "share": share}))
    return 0
