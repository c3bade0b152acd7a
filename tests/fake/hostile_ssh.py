"""A node that answers every command with what a test says, over real SSH: paramiko's server."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

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
        path.write_text(self.pin)
        return path

    @property
    def pin(self) -> str:
        """Its line of known_hosts."""
        return f"[127.0.0.1]:{self.port} {self.key.get_name()} {self.key.get_base64()}\n"

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
        """Passwords and keys."""
        return "password,publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        """Whichever it is."""
        return AUTH_SUCCESSFUL

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


class JumpHost(HostileNode):
    """A machine that passes connections on, and takes no command; *passed* has their ports."""

    def __init__(self) -> None:
        self.passed: list[int] = []
        super().__init__(lambda: iter([]))

    def check_channel_direct_tcpip_request(
        self, chanid: int, origin: tuple[str, int], destination: tuple[str, int]
    ) -> int:
        """To wherever it is."""
        self.passed.append(destination[1])
        return OPEN_SUCCEEDED

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                transport = paramiko.Transport(self._listener.accept()[0])
                threading.Thread(target=self._pass_on, args=(transport,), daemon=True).start()

    def _pass_on(self, transport: paramiko.Transport) -> None:
        transport.add_server_key(self.key)
        try:
            transport.start_server(server=self)
        except (OSError, EOFError, paramiko.SSHException):
            return  # who does not know it hangs up
        channel = transport.accept(60)
        if channel is None:
            return
        there = socket.create_connection(("127.0.0.1", self.passed[-1]))
        for source, sink in ((channel, there), (there, channel)):
            threading.Thread(target=_pump, args=(source, sink), daemon=True).start()


def _pump(source: Any, sink: Any) -> None:
    with contextlib.suppress(OSError, EOFError):
        while piece := source.recv(1 << 16):
            sink.sendall(piece)
    sink.close()


def megabytes(count: int, piece: bytes) -> Iterator[bytes]:
    """So many megabytes of a piece."""
    block = (piece * (1_000_000 // len(piece) + 1))[:1_000_000]
    yield from (block for _ in range(count))
