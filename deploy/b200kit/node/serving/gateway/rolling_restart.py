"""`rolling-restart`: restart replicas one at a time behind the gateway, so that no request is lost.

For each: are enough others in rotation? drain it -> wait until nobody is being answered by it ->
restart (active means warm) -> correctness -> back in rotation. One that does not come back stays
drained and ends the rolling restart, so at most one replica is lost to a bad configuration. A
killed one is finished by the next: the note of the replica in work stays until that replica is back
(/run/b200kit/rolling-restart.json).
Prints one JSON document; exit 0 when all are back, 1 with one line when not, 2 for a bad
configuration.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from b200kit.node.client.serving_config import ConfigError, ServingConfig, load
from b200kit.node.lib import documents, durable_files, lock
from b200kit.node.serving.gateway.haproxy import HAProxyError
from b200kit.node.serving.gateway.rolling_steps import (
    GatewayControl,
    Halt,
    RollingRestart,
    say,
    start_unit,
)
from b200kit.node.state.drift import pending_marker

LOCK = Path("/run/b200kit/rolling-restart.lock")
NOTE = Path("/run/b200kit/rolling-restart.json")


def interrupted_first(requested: Sequence[int], note: Path = NOTE) -> list[int]:
    """The replicas to see to: one that a killed rolling restart left behind comes first."""
    left = left_behind(note)
    first = [left] if left is not None else []
    return list(dict.fromkeys([*first, *requested]))


def left_behind(note: Path = NOTE) -> int | None:
    """The replica an earlier rolling restart was at work on; None when it finished."""
    try:
        return int(documents.read(note)["replica"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


async def restart(
    roller: RollingRestart, requested: Sequence[int], note: Path = NOTE
) -> list[dict[str, object]]:
    """See to every replica in turn. Raises Halt or HAProxyError, in one line, at the first fault.

    The reason of a pending restart is forgotten only when the replica is back.
    """
    done, left = [], left_behind(note)
    for index in interrupted_first(requested, note):
        durable_files.replace(note, json.dumps({"replica": index, "pid": os.getpid()}))
        try:
            done.append(await roller.restart(index, ours=index == left))
        except Halt as halt:
            if halt.untouched:
                note.unlink(missing_ok=True)
            raise
        unit = roller.serving.replica(index).unit
        Path(pending_marker(f"restart:{unit}")).unlink(missing_ok=True)
        note.unlink(missing_ok=True)
    return done


def hold(path: Path = LOCK) -> int:
    """The lock of rolling restarts, held until this process ends. Raises Halt naming who has it."""
    handle = lock.opened(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(handle, 32).decode("ascii", "replace").strip()
        os.close(handle)
        message = f"another rolling restart is running (process {holder or 'unknown'})"
        raise Halt(f"{message}; nothing was restarted", untouched=True) from None
    os.ftruncate(handle, 0)
    os.write(handle, str(os.getpid()).encode())
    return handle


def _options(args: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rolling-restart", description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--replicas", default="", help="such as 0,1; none: only what was left")
    parser.add_argument("--cut", action="store_true", help="restart though streams are open")
    return parser.parse_args(args)


def _requested(text: str, serving: ServingConfig) -> list[int]:
    try:
        numbers = [int(word) for word in text.split(",") if word]
    except ValueError:
        raise ConfigError(f"--replicas {text!r} is no list of numbers") from None
    return [serving.replica(number).index for number in numbers]


def main(args: list[str]) -> int:
    """`rolling-restart --config FILE --replicas 0,1 [--cut]`."""
    options = _options(args)
    try:
        serving = load(options.config)
        requested = _requested(options.replicas, serving)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    try:
        hold()
        roller = RollingRestart(serving, GatewayControl(), start_unit, cut=options.cut)
        done = asyncio.run(restart(roller, requested))
    except (Halt, HAProxyError, ConfigError) as error:
        say(str(error))
        return 1
    print(json.dumps({"schema": "b200kit/rolling-restart/1", "replicas": done}))
    return 0
