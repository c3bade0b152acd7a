"""`peers`: whether this node's replica is joined to the other members of its group.

    peers --config FILE --wait SECONDS --main-pid PID    until it is joined to all; 1 when it is not
    peers --config FILE --watch                          until it is not; then restarts the replica

Joined means an established TCP connection of the engine's user with the other's address. For a
follower that is all that can be known from outside: it answers no request. That the group as a
whole works is what the head's warm-up proves.

/proc/net/tcp and tcp6 have a line a connection:

    sl  local_address rem_address   st ... uid
    0:  0100007F:1F90 0200630A:C001 01 ... 1000

Addresses are words of four bytes, each in the machine's order; little-endian is assumed, as on all
machines the kit serves on. An IPv4 peer of an IPv6 socket stands as ::ffff:10.0.0.1.
"""

from __future__ import annotations

import argparse
import ipaddress
import pwd
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from b200kit.node.lib import documents
from b200kit.node.lib.documents import Malformed
from b200kit.node.lib.main_pid import MainPid, MainPidGone
from b200kit.node.state.serving import Serving

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
EVERY_S = 2.0
# A connection may be replaced by another one; two looks in a row without any are a loss.
LOOKS = 2
_ESTABLISHED = "01"


@dataclass(frozen=True)
class GroupMember:
    """What serving.json says of the group."""

    unit: str
    uid: int
    peers: tuple[str, ...]

    def missing(self) -> list[str]:
        """The peers that there is no connection with now."""
        tables = [path.read_text() for path in TABLES if path.exists()]
        there = connected(tables, self.uid)
        return [peer for peer in self.peers if peer not in there]


def load(path: Path) -> GroupMember:
    """The group of this node; raises OSError, KeyError or Malformed where there is none."""
    group = documents.load(Serving, path).group
    if group is None:
        raise Malformed(f"{path} names no group")
    return GroupMember(group.unit, pwd.getpwnam(group.user).pw_uid, group.peers)


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


def _wait(member: GroupMember, deadline_s: float, main_pid: MainPid | None) -> int:
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


def _watch(member: GroupMember) -> int:
    lost = watch(member.missing)
    print(f"peers: lost {', '.join(lost)}; {member.unit} restarts", file=sys.stderr)
    # It may have started often by then, and none of those starts was its own fault.
    subprocess.run(["systemctl", "reset-failed", member.unit], check=False)
    return subprocess.run(
        ["systemctl", "--no-block", "restart", member.unit], check=False
    ).returncode


def connected(tables: Iterable[str], uid: int) -> set[str]:
    """The addresses that processes of a user have an established connection with."""
    return {address for table in tables for address in _remotes(table, uid)}


def _remotes(table: str, uid: int) -> Iterator[str]:
    for line in table.splitlines()[1:]:
        columns = line.split()
        if len(columns) > 7 and columns[3] == _ESTABLISHED and columns[7] == str(uid):
            yield address(columns[2].partition(":")[0])


def address(text: str) -> str:
    """An address as people write it: "0200630A" -> "10.99.0.2"."""
    words = (text[start : start + 8] for start in range(0, len(text), 8))
    packed = b"".join(bytes.fromhex(word)[::-1] for word in words)
    found = ipaddress.ip_address(packed)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)
