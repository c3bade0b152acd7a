"""`standing`: who serves here now, who does not and why, under which proof, as one small document.

It adds nothing to what lies on the node already: the last look, what the watchdog remembers, the
marks and the proof are given as they were written, and only the gateway is asked who is in
rotation; the share is what the node says to the fleet's endpoint. Ages are by the clock since the
boot, which nobody sets. What cannot be read is unmeasured.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from b200kit.node.lib import boot_clock, timestamp
from b200kit.node.lib.managed_files import LOOK, STATE_DIRECTORY, note
from b200kit.node.lib.readings import attempt, is_unmeasured, reason, unmeasured
from b200kit.node.proof import share_answer
from b200kit.node.serving.gateway import drain, haproxy
from b200kit.node.serving.gateway.haproxy import GatewayServer, HAProxyError

SCHEMA = "b200kit/standing/1"
SERVING = Path("/etc/b200kit/serving.json")
DOCUMENTS = {
    "watch": LOOK,
    "mark": STATE_DIRECTORY / "watchdog-mark.json",
    "quarantine": STATE_DIRECTORY / "quarantine.json",
    "proof": STATE_DIRECTORY / "proof/proof.json",
    "drained": drain.NOTE,
}
"""Key to the file that is given as it is; null where it is not there."""


def of(
    documents: Mapping[str, Any], serving: Any, rotation: Any, watchdog: Mapping[str, Any]
) -> dict[str, Any]:
    """The document, without its time. *rotation*: the gateway's servers, or why not known."""
    group = serving.get("group") if isinstance(serving, dict) else None
    return {
        "schema": SCHEMA,
        **documents,
        "headless": isinstance(group, dict) and group.get("headless") is True,
        "replicas": _replicas(serving, rotation),
        "watchdog": dict(watchdog),
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


def read() -> dict[str, Any]:
    """This node's document, now."""
    documents = {name: attempt(lambda path=path: note(path)) for name, path in DOCUMENTS.items()}  # type: ignore[misc]
    kept = sorted((STATE_DIRECTORY / "watchdog").glob("vllm*.json"))
    watchdog = {p.stem.removeprefix("vllm"): attempt(lambda p=p: note(p)) for p in kept}  # type: ignore[misc]
    boot_id, seconds = boot_clock.now()
    now: dict[str, Any] = {"at": timestamp.now(), "boot_id": boot_id, "boot_s": round(seconds, 1)}
    now["share"] = share_answer.now()
    return {**of(documents, attempt(lambda: note(SERVING)), _rotation(), watchdog), **now}


def main(args: list[str]) -> int:
    """`standing`."""
    argparse.ArgumentParser(prog="standing", description=__doc__).parse_args(args)
    print(json.dumps(read()))
    return 0
