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
from typing import Any

from b200kit.node.lib import boot_clock, durable_files, timestamp
from b200kit.node.lib.managed_files import note
from b200kit.node.serving.gateway import drain
from b200kit.node.serving.gateway.haproxy import HAProxyError
from b200kit.node.state import quarantine

PATH = Path(quarantine.PATH)
IN_SERVICE = "in service"


def read(path: Path = PATH) -> Any:
    """The mark, None without one. Raises OSError, and ValueError for one that is no document."""
    mark = note(path)
    if mark is not None and not isinstance(mark, dict):
        raise ValueError(f"{path} is no JSON object")
    return mark


def put(who: str, why: str, path: Path = PATH) -> str:
    """Take the node out; the first day of an earlier mark stays, its trial ends."""
    try:
        before = read(path)
    except ValueError:
        before = None
    mark = quarantine.put(before, who, why, timestamp.now())
    _write(path, mark)
    return quarantine.describe(mark)


def admit(who: str, seconds: float, path: Path = PATH) -> str:
    """Let somebody try the node for a while; its gateway takes requests again."""
    mark = read(path)
    if mark is None:
        return IN_SERVICE
    until, now = timestamp.now(seconds), boot_clock.now()
    times = timestamp.now(), until
    _write(path, quarantine.admit(mark, who, times, now.boot_id, now.seconds + seconds))
    drain.end()
    return f"on trial by {who} until {until}"


def shut(path: Path = PATH) -> str:
    """End a trial; a node that nobody took out has none."""
    mark = read(path)
    if mark is None:
        return IN_SERVICE
    _write(path, {**mark, "trial": None})
    return quarantine.describe(mark)


def release(who: str, path: Path = PATH) -> str:
    """Back in service, as far as this node goes; its last content is reported."""
    try:
        before = quarantine.describe(read(path))
    except ValueError as error:
        before = f"a mark that could not be read: {error}"
    if not path.exists():
        return IN_SERVICE
    durable_files.remove(path)
    drain.end()
    return f"released by {who}; it was {before}"


def show(path: Path = PATH) -> str:
    """What stands there now."""
    mark = read(path)
    return IN_SERVICE if mark is None else json.dumps(mark)


def _write(path: Path, mark: dict[str, Any]) -> None:
    durable_files.replace(path, json.dumps(mark, indent=1) + "\n")


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
