"""A node that answers every command with what a test says, over real SSH: paramiko's server."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import paramiko
from paramiko.common import AUTH_SUCCESSFUL, OPEN_SUCCEEDED

Answer = Callable[[], Iterator[bytes]]
"""What a command prints, in pieces, as far as a reader takes it."""


class HostileNode(paramiko.ServerInterface):
    """Lets anyone in, prints *answer*, on stderr where that is said, and exits with *status*."""

    def __init__(self, answer: Answer, on_stderr: bool = False, status: int = 0) -> None:
        self.answer, self.on_stderr, self.status = answer, on_stderr, status
        self.key = paramiko.ECDSAKey.generate()
        self.commands: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def known_hosts(self, path: Path) -> Path:
        """A file that pins its key."""
        name, text = f"[127.0.0.1]:{self.port}", self.key.get_base64()
        path.write_text(f"{name} {self.key.get_name()} {text}\n")
        return path

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                transport = paramiko.Transport(self._listener.accept()[0])
                transport.add_server_key(self.key)
                transport.start_server(server=self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()

    def get_allowed_auths(self, username: str) -> str:
        """Passwords."""
        return "password"

    def check_auth_password(self, username: str, password: str) -> int:
        """Whichever it is."""
        return AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        """Whatever is opened."""
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        """Print the answer."""
        self.commands.append(command.decode())
        # Not before the request itself was answered.
        threading.Timer(0.1, self._print, (channel,)).start()
        return True

    def _print(self, channel: paramiko.Channel) -> None:
        send = channel.sendall_stderr if self.on_stderr else channel.sendall
        with contextlib.suppress(OSError, EOFError):
            for piece in self.answer():
                send(piece)
            channel.send_exit_status(self.status)
        channel.close()


def megabytes(count: int, piece: bytes) -> Iterator[bytes]:
    """So many megabytes of a piece."""
    block = (piece * (1_000_000 // len(piece) + 1))[:1_000_000]
    yield from (block for _ in range(count))
