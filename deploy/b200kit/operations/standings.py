"""Ask every node of an inventory where it stands, again and again, over connections that stay open.

Each node is asked by itself, so one that is slow or away holds no other. One answer a line on
stdout: first {"nodes": {name: {"health_age_max_s"}}} or {"refused": [line, ...]}, then
{"node", "standing"} or {"node", "why"} as they come. A process of its own, since pyinfra's command
line replaces Python's threads and sockets: `python -m b200kit.operations.standings INVENTORY
EVERY_S`, or 0 for one answer of each. It ends with its stdin.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import gevent  # type: ignore[import-untyped]
from pyinfra.api.config import Config
from pyinfra.api.host import Host
from pyinfra.api.state import State

from b200kit.inventory.spec import NodeSpec
from b200kit.node.lib import documents
from b200kit.operations import connections, inventory_process, preflight
from b200kit.operations.inventory_process import InventoryRefused
from b200kit.operations.standing_feed import ANSWER_S, CONNECT_S
from b200kit.run import host_keys
from b200kit.run.remote import Remote, RemoteError

_MOST_BYTES = 1 << 20
"""Of an answer; one of a sound node has a few kB."""
_OPEN_FILES = 4096
"""A connection is an open file, and 1024 is the usual limit."""

Tell = Callable[[dict[str, Any]], None]


def refusals(path: Path, hosts: Sequence[Host], state: State) -> Iterator[str]:
    """Why the nodes of an inventory are not connected to, a line each."""
    if not hosts:
        yield f"{path}: there is no node"
    for host in hosts:
        spec = preflight.parsed(host, {})
        wrong = [*connections.problems(state, host), *host_keys.problems(host)]
        for problem in [*(spec if isinstance(spec, list) else []), *wrong]:
            yield f"{path}: {host.name}: {problem.key}: {problem.message}"


def most_age_s(spec: NodeSpec) -> float:
    """Seconds after which the last check at a node says nothing about now (stages/watchdog.py)."""
    return 3 * spec.watchdog.health_check_s + spec.watchdog.health_check_deadline_s


def answer(remote: Remote) -> dict[str, Any]:
    """What a node says of itself, or why there is nothing."""
    try:
        with gevent.Timeout(CONNECT_S, exception=RemoteError(f"not reached in {CONNECT_S} s")):
            remote.ensure_connected()
        text = remote.attempt_program("standing", timeout=ANSWER_S, most_bytes=_MOST_BYTES)
        found = documents.parse(text.stdout, _MOST_BYTES) if text.ok else None
    except RemoteError as error:
        why = host_keys.missing(remote.host) or str(error)
        return {"why": why}
    except ValueError:
        found = None
    if isinstance(found, dict):
        return {"standing": found}
    return {"why": f"it did not say where it stands: {' '.join(text.lines[-1:])[:200]}"}


def follow(host: Host, every_s: float, tell: Tell) -> None:
    """Tell what a node answers, every so often; once for 0."""
    remote = Remote(host, ANSWER_S)
    while True:
        tell({"node": host.name, **answer(remote)})
        if not every_s:
            return
        gevent.sleep(every_s)


def run(path: Path, every_s: float, tell: Tell) -> None:
    """Ask all nodes side by side."""
    try:
        hosts = inventory_process.hosts(path)
    except InventoryRefused as error:
        tell({"refused": list(error.lines)})
        return
    state = State()
    if hosts:
        state.init(hosts[0].inventory, Config())
    if lines := list(dict.fromkeys(refusals(path, hosts, state))):
        tell({"refused": lines})
        return
    specs = {host.name: preflight.parsed(host, {}) for host in hosts}
    known = {name: spec for name, spec in specs.items() if isinstance(spec, NodeSpec)}
    tell({"nodes": {n: {"health_age_max_s": most_age_s(spec)} for n, spec in known.items()}})
    gevent.joinall([gevent.spawn(follow, host, every_s, tell) for host in hosts])


def main(argv: Sequence[str]) -> None:
    """INVENTORY EVERY_S."""
    path, every_s = argv
    # What an inventory or a library prints is no answer.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = _OPEN_FILES if most == resource.RLIM_INFINITY else min(_OPEN_FILES, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))

    gevent.get_hub().threadpool.spawn(_end_with_reader)

    def tell(line: dict[str, Any]) -> None:
        answers.write(json.dumps(line) + "\n")

    run(Path(path), float(every_s), tell)


def _end_with_reader() -> None:
    """Whoever began this process holds its stdin open until nobody wants the answers."""
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
