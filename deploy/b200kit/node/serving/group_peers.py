"""`peers`: whether this node's replica is joined to the other members of its group.

    peers --config FILE --wait SECONDS --main-pid PID    until it is joined to all; 1 when it is not
    peers --config FILE --watch                          until it is not; then restarts the replica

Joined means an established TCP connection of the engine's user with the other's address. For a
follower that is all that can be known from outside: it answers no request. That the group as a
whole works is what the head's warm-up proves.
"""

from __future__ import annotations

import argparse
import pwd
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from b200kit.node.lib import documents
from b200kit.node.lib.documents import Malformed
from b200kit.node.lib.main_pid import MainPid, MainPidGone
from b200kit.node.serving.sockets import connected
from b200kit.node.state.serving import Serving

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
EVERY_S = 2.0
# A connection may be replaced by another one; two looks in a row without any are a loss.
LOOKS = 2


@dataclass(frozen=True)
class Member:
    """What serving.json says of the group."""

    unit: str
    uid: int
    peers: tuple[str, ...]

    def missing(self) -> list[str]:
        """The peers that there is no connection with now."""
        tables = [path.read_text() for path in TABLES if path.exists()]
        there = connected(tables, self.uid)
        return [peer for peer in self.peers if peer not in there]


def load(path: Path) -> Member:
    """The group of this node; raises OSError, KeyError or Malformed where there is none."""
    group = documents.load(Serving, path).group
    if group is None:
        raise Malformed(f"{path} names no group")
    return Member(group.unit, pwd.getpwnam(group.user).pw_uid, group.peers)


def wait(
    missing: Callable[[], list[str]], deadline_s: float, alive: Callable[[], bool]
) -> list[str]:
    """Who is still missing at the end; empty when all are joined. Raises MainPidGone."""
    end = time.monotonic() + deadline_s
    while unjoined := missing():
        if not alive():
            raise MainPidGone("the replica ended before it was joined to the others")
        if time.monotonic() >= end:
            return unjoined
        time.sleep(min(EVERY_S, deadline_s))
    return []


def watch(missing: Callable[[], list[str]], every_s: float = EVERY_S) -> list[str]:
    """Return when a peer is lost: it was missing in `LOOKS` looks in a row."""
    looks = 0
    while looks < LOOKS:
        time.sleep(every_s)
        lost = missing()
        looks = looks + 1 if lost else 0
    return lost


def main(args: list[str]) -> int:
    """0 joined, or a lost peer was handled; 1 not joined in time; 2 there is no group."""
    parser = argparse.ArgumentParser(prog="peers")
    parser.add_argument("--config", type=Path, required=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--wait", type=float, metavar="SECONDS")
    what.add_argument("--watch", action="store_true")
    parser.add_argument("--main-pid", type=int)
    options = parser.parse_args(args)
    try:
        member = load(options.config)
    except (OSError, KeyError, Malformed) as error:
        print(f"peers: {error}", file=sys.stderr)
        return 2
    if options.watch:
        return _watch(member)
    return _wait(member, options.wait, MainPid(options.main_pid) if options.main_pid else None)


def _wait(member: Member, deadline_s: float, main_pid: MainPid | None) -> int:
    try:
        unjoined = wait(member.missing, deadline_s, main_pid.alive if main_pid else lambda: True)
    except MainPidGone as gone:
        print(f"peers: {gone}", file=sys.stderr)
        return 1
    if unjoined:
        text = f"not joined to {', '.join(unjoined)} within {deadline_s:g} s"
        print(f"peers: {text}: does its replica start? may it be reached?", file=sys.stderr)
        return 1
    print(f"peers: joined to {', '.join(member.peers)}", file=sys.stderr)
    return 0


def _watch(member: Member) -> int:
    lost = watch(member.missing)
    print(f"peers: lost {', '.join(lost)}; {member.unit} restarts", file=sys.stderr)
    # It may have started often by then, and none of those starts was its own fault.
    subprocess.run(["systemctl", "reset-failed", member.unit], check=False)
    return subprocess.run(
        ["systemctl", "--no-block", "restart", member.unit], check=False
    ).returncode
