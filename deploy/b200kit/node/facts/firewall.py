"""The firewall as the kernel has it, and the ports by which people reach this node over SSH."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from b200kit.node.facts import nft_rules as rules
from b200kit.node.lib import documents
from b200kit.node.lib.documents import LARGE, Object
from b200kit.node.lib.readings import COMMAND_TIMEOUT_S, attempt, command, is_digits, text

PROC = Path("/proc")
_SOCKET = re.compile(r"socket:\[([0-9]+)\]")
_PORT = re.compile(r":([0-9]+) \(Stream\)")
# "[::]:22 (Stream)"; sshd has this unit on Ubuntu 22.10 and later, where systemd listens for it.
_SOCKET_UNITS = ("ssh.socket", "sshd.socket")


def firewall() -> dict[str, Any]:
    """Our table's rules, null without the table, and the ports of SSH."""
    return {"rules": attempt(table), "ssh_ports": attempt(ssh_ports)}


def table() -> list[str] | None:
    """The lines of our table; null where the kernel has none. Raises OSError without nft."""
    done = subprocess.run(
        ["nft", "-j", "list", "table", "inet", rules.TABLE],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        env={**os.environ, "LC_ALL": "C"},
        check=False,
    )
    if done.returncode == 0:
        return rules.listed(documents.decode(Object, done.stdout, LARGE, "what nft lists"))
    output = done.stderr.strip().splitlines() or ["it said nothing"]
    if "No such file or directory" in output[0]:
        return None
    raise OSError(f"nft exited {done.returncode}: {output[0]}")


def ssh_ports() -> list[int]:
    """Ports sshd listens on, or systemd for it, and the one this very session came by."""
    found = {*listening(), *socket_units()}
    session = session_port()
    if session is not None:
        found.add(session)
    return sorted(found)


def session_port() -> int | None:
    """The node's port of this SSH session, from the nearest process that knows it.

    sudo drops SSH_CONNECTION ("CLIENT PORT SERVER PORT"), so the parents are asked, too.
    """
    for environment in environments():
        for entry in environment.split("\0"):
            name, _, value = entry.partition("=")
            if name == "SSH_CONNECTION" and len(value.split()) == 4:
                return int(value.split()[3])
    return None


def environments() -> Iterator[str]:
    """The environments of this process, its parent, and so on; those that can be read."""
    pid = os.getpid()
    while pid > 1:
        with suppress(OSError):
            yield text(PROC / str(pid) / "environ")
        # The name in parentheses may hold blanks; the parent is the second word behind it.
        pid = int(text(PROC / str(pid) / "stat").rpartition(")")[2].split()[1])


def listening() -> set[int]:
    """Ports on which a process called sshd listens."""
    mine = {inode for pid in named("sshd") for inode in sockets(pid)}
    tables = [PROC / "net/tcp", PROC / "net/tcp6"]
    rows = [line.split() for path in tables if path.exists() for line in text(path).splitlines()]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in mine}


def named(name: str) -> Iterator[str]:
    """Ids of the processes of a name."""
    for entry in PROC.iterdir():
        try:
            if is_digits(entry.name) and text(entry / "comm") == name:
                yield entry.name
        except OSError:
            continue


def sockets(pid: str) -> Iterator[str]:
    """Inodes of a process's sockets."""
    try:
        for descriptor in (PROC / pid / "fd").iterdir():
            match = _SOCKET.fullmatch(os.readlink(descriptor))
            if match:
                yield match[1]
    except OSError:
        return


def socket_units() -> set[int]:
    """Ports on which systemd listens for sshd."""
    shown = command(["systemctl", "show", "--property=Listen,ActiveState", *_SOCKET_UNITS])
    active = (block for block in shown.split("\n\n") if "ActiveState=active" in block)
    return {int(port) for block in active for port in _PORT.findall(block)}
