"""What a node prints for one command, up to a limit: a broken node must not fill the controller.

pyinfra keeps every line that arrives as an object of its own, so that 60 MB of line ends take
gigabytes. Here lines are handed to it until the limit, and the channel is closed there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from paramiko import Channel, SSHClient

BYTES = 4 << 20
"""Most that a command prints, stdout and stderr together; an observation has a tenth of it."""
LINES = 50_000
"""Most lines among these: apt's log of a whole installation has a few thousand."""
_PIECE = 32_768
# Lines after which pyinfra asks a person for a password and waits (its connectors/util.py): a run
# has nobody to ask, and a node must not make it wait.
_ASKS = ("sudo: a password is required", "sudo-rs: interactive authentication is required")
_REFUSED = (
    "b200kit: sudo asks for a password on the node: let the user in without one "
    "(NOPASSWD: ALL in sudoers), or log in as root"
)


class BoundedClient:
    """An SSH client as pyinfra's connector uses it to run one command; `exceeded` says the rest."""

    def __init__(self, client: SSHClient, limit: int) -> None:
        self._client = client
        self._bytes, self._lines = limit, LINES

    @property
    def exceeded(self) -> bool:
        """Whether the command was cut off because it printed too much."""
        return self._bytes < 0 or self._lines < 0

    def exec_command(self, *args: Any, **kwargs: Any) -> tuple[Any, BoundedLines, BoundedLines]:
        """As paramiko's; the lines of both outputs count against one limit."""
        stdin, stdout, stderr = self._client.exec_command(*args, **kwargs)
        channel: Channel = stdout.channel
        del stderr
        return (
            stdin,
            BoundedLines(channel, channel.recv, self._take),
            BoundedLines(channel, channel.recv_stderr, self._take),
        )

    def _take(self, piece: bytes) -> bool:
        self._bytes -= len(piece)
        self._lines -= piece.count(b"\n")
        return not self.exceeded


@dataclass(frozen=True)
class BoundedLines:
    """One output of a command, line by line; bytes that are no UTF-8 are shown as such."""

    channel: Channel
    receive: Callable[[int], bytes]
    take: Callable[[bytes], bool]

    def __iter__(self) -> Iterator[str]:
        """Lines without their ends, until the output ends or *take* refuses a piece."""
        begun: list[bytes] = []
        while piece := self.receive(_PIECE):
            if not self.take(piece):
                self.channel.close()
                return
            head, *rest = piece.split(b"\n")
            begun.append(head)
            for part in rest:
                yield _text(begun)
                begun = [part]
        if any(begun):
            yield _text(begun)


def _text(parts: list[bytes]) -> str:
    line = b"".join(parts).decode(errors="replace")
    return _REFUSED if line.strip() in _ASKS else line
