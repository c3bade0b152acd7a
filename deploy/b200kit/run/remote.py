"""One node as the stages see it: run a command, run the node program, put files. Counts commands.

Stages know nothing of pyinfra but this. Everything that goes wrong is a RemoteError with one line;
nothing is printed, and what goes over stdin is shown by nothing.

What a node prints for one command has a limit: a broken node must not fill the controller. pyinfra
keeps every line that arrives as an object of its own, so that 60 MB of line ends take gigabytes.
Lines are handed to it until the limit, and the channel is closed there.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, TypeVar

import gevent  # type: ignore[import-untyped]
from paramiko import Channel, SSHClient, SSHException
from pyinfra.api.command import StringCommand
from pyinfra.api.exceptions import ConnectError
from pyinfra.api.host import Host

from b200kit.node.lib import compiled, documents
from b200kit.node.lib.error_line import cause
from b200kit.node.state.drift import File
from b200kit.run import connection_fault, observation, sudo_script, zipapp

T = TypeVar("T")
INSTALLED = compiled.INSTALLED
ACTING = "/run/b200kit/acting.lock"
"""Root's alone, as every lock (b200kit/node/lib/lock.py)."""
MAKE_ACTING = f"(umask 077; mkdir -p -m 755 {PurePath(ACTING).parent}; : >>{ACTING})"
_BYTES = 4 << 20
"""Most that a command prints, stdout and stderr together; an observation has a tenth of it."""
_LINES = 50_000
"""Most lines among these: apt's log of a whole installation has a few thousand."""
_PIECE = 32_768
# Lines after which pyinfra asks a person for a password and waits (its connectors/util.py): a run
# has nobody to ask, and a node must not make it wait.
_ASKS = ("sudo: a password is required", "sudo-rs: interactive authentication is required")
_REFUSED = (
    "b200kit: sudo asks for a password on the node: give it (-K, or B200_SUDO_PASSWORD), let the "
    "user in without one (NOPASSWD: ALL in sudoers), or log in as root"
)
SUDO_PASSWORD = "B200_SUDO_PASSWORD"  # noqa: S105 - the variable's name
given_password = os.environ.pop(SUDO_PASSWORD, None)
"""Of this run's nodes; no program that is started here inherits it, but a run of ours."""
_GRACE_S = 5
_LOST = (OSError, SSHException, EOFError, TimeoutError)


def measured(kind: type[T], result: Result) -> T:
    """The document that a measuring command printed, whatever its exit status: that only repeats
    its verdict. Raises RemoteError.
    """
    try:
        value = documents.parse(result.stdout, documents.LARGE)
    except documents.Malformed:
        raise RemoteError(f"no measurement: {cause(result.lines)}") from None
    try:
        return documents.structure(kind, value)
    except documents.Malformed as error:
        raise RemoteError(f"no measurement: {error}") from None


class RemoteError(Exception):
    """Why something on the node could not be done, in one line."""


@dataclass(frozen=True)
class Result:
    """What a command left: whether it exited 0, and its output."""

    ok: bool
    stdout: str
    lines: tuple[str, ...]


class Remote:
    """A connected node."""

    def __init__(self, host: Host, timeout: int) -> None:
        self.host = host
        self.timeout = timeout
        self.commands = 0

    def attempt(
        self,
        command: str,
        stdin: str | None = None,
        timeout: int | None = None,
        most_bytes: int = _BYTES,
    ) -> Result:
        """Run *command* with sh; raises only when node or connection fail, or when time is up.

        One that prints more than *most_bytes* is ended there, and counts as failed.
        """
        if not self._alive():
            raise RemoteError("connection lost: there is none")
        self.commands += 1
        limit = timeout or self.timeout
        try:
            # pyinfra's own limit begins when output is awaited; a hung node may not even get there.
            with gevent.Timeout(limit + _GRACE_S, exception=TimeoutError):
                run_shell_command, client = self._bounded(most_bytes)
                ok, output = run_shell_command(**self._as_root(command, stdin), _timeout=limit)
        except TimeoutError:
            raise RemoteError(f"no answer in {limit} s") from None
        except _LOST as error:
            raise RemoteError(f"connection lost: {error or type(error).__name__}") from None
        if client is not None and client.exceeded:
            raise RemoteError(
                f"it printed more than {most_bytes} bytes or {_LINES} lines for one "
                "command and was cut off: the node is broken or not what it says"
            )
        lines = tuple(line.line for line in output)
        if not ok and not lines and not self._alive():
            raise RemoteError("connection lost: the node closed it")
        return Result(bool(ok), "\n".join(output.stdout_lines), lines)

    def run(self, command: str, stdin: str | None = None, timeout: int | None = None) -> str:
        """stdout of *command*; raises RemoteError with the cause when it exits non-zero."""
        result = self.attempt(command, stdin, timeout)
        if not result.ok:
            raise RemoteError(cause(result.lines))
        return result.stdout

    def run_logged(self, script: str, log: str, limit_s: int | None = None) -> str:
        """Run a long *script*, its output in *log* on the node; returns its last line.

        Raises with its cause of failure. It outlives a lost connection instead of dying of SIGPIPE,
        so one that a killed run left at work is waited for: two of them never work on a node at a
        time.
        """
        guard = f"{MAKE_ACTING} && flock --close --timeout {limit_s or self.timeout} {ACTING}"
        logged = f"{guard} sh -c {shlex.quote(script)} </dev/null >{log} 2>&1"
        return self.run(
            f"{logged} && tail -n 1 {log} || {{ tail -n 40 {log}; exit 1; }}", timeout=limit_s
        )

    def program(
        self,
        arguments: str,
        stdin: str | None = None,
        timeout: int | None = None,
        most_bytes: int = _BYTES,
    ) -> str:
        """stdout of the node program; raises RemoteError with the cause when it exits non-zero."""
        result = self.attempt_program(arguments, stdin, timeout, most_bytes)
        if not result.ok:
            raise RemoteError(cause(result.lines))
        return result.stdout

    def attempt_program(
        self,
        arguments: str,
        stdin: str | None = None,
        timeout: int | None = None,
        most_bytes: int = _BYTES,
    ) -> Result:
        """Run the node program; where it is missing, it is first put into /run/b200kit."""
        command = _with_program(arguments)
        result = self.attempt(command, stdin, timeout, most_bytes)
        if result.stdout.strip() == _ABSENT:
            self._upload()
            result = self.attempt(command, stdin, timeout, most_bytes)
        return result

    def observe(self, ask: dict[str, Any]) -> dict[str, Any]:
        """The node's NodeState document; what cannot be is unmeasured in it."""
        # Every byte of a model takes as long as a stage; all else is there in seconds.
        hashed = bool(ask.get("weights", {}).get("hash"))
        patience = self.timeout if hashed else min(self.timeout, 120)
        try:
            return observation.parsed(self.program(observation.command(ask), timeout=patience))
        except observation.NoObservation as error:
            raise RemoteError(str(error)) from None

    def put(self, files: Sequence[File], markers: Sequence[str] = ()) -> None:
        """Write *files* atomically, with *markers* before them; contents travel over stdin only."""
        document = {
            "markers": list(markers),
            "files": [
                {
                    "path": file.path,
                    "content": base64.b64encode(file.content).decode(),
                    "mode": file.mode,
                    "owner": file.owner,
                    "notify": list(file.notify),
                }
                for file in files
            ],
        }
        self.program("put", stdin=json.dumps(document))

    def reconnect(self) -> None:
        """Connect again, for a node that rebooted; raises pyinfra's ConnectError when it cannot."""
        client = self._client
        if client is not None:
            client.close()
        self.host.connector.disconnect()
        self.host.connector.connect()

    def others(self) -> list[Remote]:
        """The other hosts of the inventory, in the run or not, connected or not."""
        inventory = getattr(self.host, "inventory", ())
        return [Remote(host, self.timeout) for host in inventory if host.name != self.host.name]

    def ensure_connected(self) -> None:
        """Connect a host that the run did not, or lost; RemoteError when it cannot be reached."""
        if self.host.connected:
            connector = getattr(self.host, "connector", None)
            if not self._alive() or getattr(connector, "client", self) is None:
                self.connect_fresh()
            return
        try:
            self.host.connect(show_errors=False, raise_exceptions=True)
        except (ConnectError, *_LOST) as error:
            raise RemoteError(f"not reached: {connection_fault.describe(error)}") from None

    def connect_fresh(self) -> None:
        """A connection that is new to the node's firewall; RemoteError when there can be none."""
        try:
            self.reconnect()
        except (ConnectError, *_LOST) as error:
            raise RemoteError(f"no new connection: {connection_fault.describe(error)}") from None

    def _bounded(self, most_bytes: int) -> tuple[Callable[..., Any], BoundedClient | None]:
        """How pyinfra runs a command here, and what bounds its output; other than SSH has none."""
        client = self._client
        if client is None:
            return self.host.run_shell_command, None
        connector: Any = copy(self.host.connector)
        connector.client = bounded = BoundedClient(client, most_bytes)
        return connector.run_shell_command, bounded

    @property
    def _client(self) -> SSHClient | None:
        return getattr(getattr(self.host, "connector", None), "client", None)

    def _alive(self) -> bool:
        """Whether the SSH transport stands; connectors without one are taken to stand."""
        client = self._client
        if client is None:
            # pyinfra's SSH connector that never got through has one that is None.
            return not hasattr(getattr(self.host, "connector", None), "client")
        transport = client.get_transport()
        return transport is not None and transport.is_active()

    def _as_root(self, command: str, stdin: str | None) -> dict[str, Any]:
        """How pyinfra is to run *command*: by sudo where the inventory says so."""
        sudo = bool(self.host.data.get("_sudo", False))
        if not sudo or given_password is None:
            return {"command": StringCommand(command), "_stdin": stdin, "_sudo": sudo}
        # pyinfra would put the password into an argument list on the node.
        asked = sudo_script.asked(f"sh -c {shlex.quote(command)}")
        line = f"sh -c {shlex.quote(asked)}"
        return {"command": StringCommand(line), "_stdin": f"{given_password}\n{stdin or ''}"}

    def _upload(self) -> None:
        content, digest = zipapp.build()
        path = f"/run/b200kit/{digest}.pyz"
        self.run(
            f"{AS_ROOT}; umask 077 && mkdir -p /run/b200kit && "
            f"base64 -d > {path}.new && mv {path}.new {path}",
            stdin=base64.b64encode(content).decode(),
        )


_ABSENT = "b200kit: node program absent"
AS_ROOT = (
    'test "$(id -u)" = 0 || { echo "b200kit: logged in as $(id -un), who is not root: '
    'set _sudo = True in the inventory, or log in as root" >&2; exit 1; }'
)


def program_step(arguments: str) -> str:
    """The node program as a step of a longer script; an observation puts it on the node."""
    return f"( {_with_program(arguments)}; exit 1 )"


def _with_program(arguments: str) -> str:
    """A shell line that runs this very version of the node program, wherever it lies."""
    try:
        digest = zipapp.build()[1]
    except zipapp.LibraryRefused as error:
        raise RemoteError(str(error)) from None
    carried = f"/run/b200kit/{digest}.pyz"
    return (
        f"{zipapp.requires('python3')}; for p in {INSTALLED} {carried}; do "
        f'echo "{digest}  $p" | sha256sum -c --status 2>/dev/null && '
        f"exec python3 -I $p {arguments}; done; echo '{_ABSENT}'"
    )


class BoundedClient:
    """An SSH client as pyinfra's connector uses it to run one command; `exceeded` says the rest."""

    def __init__(self, client: SSHClient, limit: int) -> None:
        self._client = client
        self._bytes, self._lines = limit, _LINES

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
