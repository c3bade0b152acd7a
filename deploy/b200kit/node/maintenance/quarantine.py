"""`quarantine`: take this node out of service, let it be tried, release it, show it.

The mark (b200kit/node/state/quarantine.py) is on the disk, its directory entry too, before the
command returns: the boot gate must find it after a power cut. What it prints is one line for a
person.
"""

from __future__ import annotations

import argparse
import getpass
import json
import socket
import sys
from pathlib import Path

from b200kit.node.lib import boot_clock, documents, durable_files, timestamp
from b200kit.node.serving.gateway import drain
from b200kit.node.serving.gateway.haproxy import HAProxyError
from b200kit.node.state import quarantine
from b200kit.node.state.quarantine import Quarantine

PATH = Path(quarantine.PATH)
IN_SERVICE = "in service"


def read(path: Path = PATH) -> Quarantine | None:
    """The mark, None without one. Raises Malformed for one that is no document."""
    try:
        return documents.load(Quarantine, path)
    except FileNotFoundError:
        return None


def put(who: str, why: str, path: Path = PATH) -> str:
    """Take the node out; the first day of an earlier mark stays, its trial ends."""
    before = documents.remembered(Quarantine, path)
    return _write(path, quarantine.put(before, who, why, timestamp.now()))


def admit(who: str, seconds: float, path: Path = PATH) -> str:
    """Let somebody try the node for a while; its gateway takes requests again."""
    mark = read(path)
    if mark is None:
        return IN_SERVICE
    until, now = timestamp.now(seconds), boot_clock.now()
    times = timestamp.now(), until
    _write(path, mark.admitted(who, times, now.boot_id, now.seconds + seconds))
    drain.end()
    return f"on trial by {who} until {until}"


def shut(path: Path = PATH) -> str:
    """End a trial; a node that nobody took out has none."""
    mark = read(path)
    return IN_SERVICE if mark is None else _write(path, mark.shut())


def release(who: str, path: Path = PATH) -> str:
    """Back in service, as far as this node goes; its last content is reported."""
    try:
        before = str(read(path))
    except documents.Malformed as error:
        before = f"a mark that could not be read: {error}"
    if not path.exists():
        return IN_SERVICE
    durable_files.remove(path)
    drain.end()
    return f"released by {who}; it was {before}"


def show(path: Path = PATH) -> str:
    """What stands there now."""
    mark = read(path)
    return IN_SERVICE if mark is None else json.dumps(documents.unstructure(mark))


def _write(path: Path, mark: Quarantine) -> str:
    durable_files.replace(path, documents.to_bytes(mark))
    return str(mark)


def _here() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


def _options(args: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="quarantine", description=__doc__)
    parser.add_argument("act", choices=("put", "admit", "shut", "release", "show"))
    parser.add_argument("--who", default=_here(), help="who does it; you on this node")
    parser.add_argument("--why", default="", help="put: what is wrong with the node")
    parser.add_argument("--for", dest="seconds", type=float, default=3600.0, help="admit: seconds")
    options = parser.parse_args(args)
    if options.act == "put" and not options.why.strip():
        parser.error("put needs --why")
    return options


def main(args: list[str]) -> int:
    """Do one act; 1 with one line when it could not be done."""
    options = _options(args)
    try:
        match options.act:
            case "put":
                output = put(options.who, options.why)
            case "admit":
                output = admit(options.who, options.seconds)
            case "shut":
                output = shut()
            case "release":
                output = release(options.who)
            case _:
                output = show()
    except (OSError, ValueError, HAProxyError) as error:
        print(f"quarantine {options.act}: {error}", file=sys.stderr)
        return 1
    print(output)
    return 0
