"""`metrics`: what the node knows of itself, as a text that Prometheus scrapes.

With --serving it is written to /run/b200kit/metrics.prom, and beside node_exporter's own where that
has a folder for it: after each look, however the look ended. With --answer the text is given as an
HTTP answer on the socket that systemd hands over; 503 where there is none of this boot. Exit 0 when
it was written or answered, 1 with one line when it could not be.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import b200kit
from b200kit.node.client.serving_config import ConfigError, load
from b200kit.node.events.spool import Spool
from b200kit.node.lib import boot_clock, durable_files, managed_files
from b200kit.node.lib.readings import attempt
from b200kit.node.metrics import exposition
from b200kit.node.metrics.families import Events, MetricsInput, families
from b200kit.node.proof import share_answer

FILE = Path("/run/b200kit/metrics.prom")
LOOKS = Path("/run/b200kit/looks.json")
TEXTFILES = Path("/var/lib/prometheus/node-exporter")
"""Where Debian's and Ubuntu's prometheus-node-exporter reads the texts of others."""
PROOF = Path("/var/lib/b200kit/proof/proof.json")
_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_MOST_OF_A_REQUEST = 65536


def known(serving: Path, looks: Mapping[str, int], tolerance: float) -> MetricsInput:
    """Everything that this node knows now."""
    notes = managed_files.notes()
    return MetricsInput(
        now=time.time(),
        boot_s=boot_clock.seconds(),
        version=b200kit.__version__,
        notes=notes,
        replicas=_replicas(serving),
        looks=looks,
        proof=attempt(lambda: managed_files.note(PROOF)),
        tolerance=tolerance,
        share=share_answer.now() if share_answer.RULES.exists() else None,
        events=_events(Spool()),
        has_sink=Spool().config.exists(),
    )


def _events(spool: Spool) -> Events | None:
    """None also where the spool cannot be read: no series then, never a 0."""
    try:
        return Events(*spool.counts()) if spool.config.exists() else None
    except (OSError, ValueError) as error:
        print(f"metrics: events: {error}", file=sys.stderr)
        return None


def _replicas(path: Path) -> dict[int, tuple[str, ...]] | None:
    try:
        return {replica.index: replica.uuids for replica in load(path).replicas}
    except ConfigError:
        return None


def counted(outcome: str | None) -> dict[str, int]:
    """The looks of this boot by outcome, with one more; systemd tells it as $SERVICE_RESULT."""
    before = attempt(lambda: managed_files.note(LOOKS))
    looks = {str(k): v for k, v in _mapping(before).items() if isinstance(v, int)}
    if outcome:
        looks[outcome] = looks.get(outcome, 0) + 1
        durable_files.replace(LOOKS, json.dumps(looks) + "\n")
    return looks


def _mapping(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}


def write(text: str) -> None:
    """To every place that something scrapes. Raises OSError."""
    durable_files.replace(FILE, text)
    if TEXTFILES.is_dir():
        durable_files.replace(TEXTFILES / "b200kit.prom", text)


def answer(request: bytes) -> bytes:
    """The HTTP answer to a request's head."""
    if not request.startswith((b"GET ", b"HEAD ")):
        return _http("405 Method Not Allowed", b"GET only\n")
    try:
        return _http("200 OK", FILE.read_bytes())
    except OSError as error:
        return _http("503 Service Unavailable", f"no metrics of this boot: {error}\n".encode())


def _http(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.0 {status}\r\nContent-Type: {_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _request() -> bytes:
    """The head of a request on stdin, read to its end: what is left unread resets the answer."""
    read = b""
    while b"\r\n\r\n" not in read and len(read) < _MOST_OF_A_REQUEST:
        part = os.read(0, 4096)
        if not part:
            break
        read += part
    return read


def main(args: list[str]) -> int:
    """`metrics --serving FILE | --answer`."""
    parser = argparse.ArgumentParser(prog="metrics", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--serving", type=Path, help="serving.json")
    what.add_argument("--answer", action="store_true", help="answer the request on stdin")
    parser.add_argument("--tolerance", type=float, default=0.1, help="share above the record")
    options = parser.parse_args(args)
    try:
        if options.answer:
            sys.stdout.buffer.write(answer(_request()))
            sys.stdout.buffer.flush()
        else:
            looks = counted(os.environ.get("SERVICE_RESULT"))
            found = families(known(options.serving, looks, options.tolerance))
            write(exposition.text(found))
    except OSError as error:
        print(f"metrics: {error}", file=sys.stderr)
        return 1
    return 0
