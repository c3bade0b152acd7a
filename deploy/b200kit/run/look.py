"""One look at a node: with the user's own ssh and the host key that it knows, or on this machine.

The node program goes over stdin into memory (memfd_create(2)) and runs from there: it is on no file
system of the node, so that nothing is left there, however the connection ends.
"""

from __future__ import annotations

import base64
import os
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import IO, Any

from b200kit.node.lib.error_line import cause
from b200kit.run import connection_fault, observation, sudo_script, zipapp
from b200kit.run.login import Login

_LIMIT_S = 120
_MOST_BYTES = 4 << 20
"""Of an observation; one of eight GPUs has a tenth of it."""
_ERROR_BYTES = 64 << 10
_END_S = 5
_BOOT = """
import os, sys
if sys.version_info < (3, 10):
    sys.exit("b200kit: python3 is %d.%d; 3.10 or newer is needed" % sys.version_info[:2])
program = sys.stdin.buffer.read()[-{size}:]
if len(program) != {size}:
    sys.exit("b200kit: the node program did not arrive whole")
file = os.memfd_create("b200kit", 0)
with open(file, "wb", closefd=False) as stream:
    stream.write(program)
path = "/proc/%d/fd/%d" % (os.getpid(), file)
os.execv(sys.executable, [sys.executable, "-I", "-B", path, *sys.argv[1:]])
"""
_AS_ROOT = """
as=
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null ||
    {{ echo "b200kit: $(id -un) is not root, and there is no sudo: log in as root" >&2; exit 77; }}
  why=$(sudo -n true 2>&1) || {{ echo "b200kit: sudo of $(id -un): $why" >&2; exit 77; }}
  as="sudo -n"
fi
exec $as {program}
"""


class NotSeen(Exception):
    """Why there is no observation, in one line; `outcome` as a run has it, `cause` by its code."""

    def __init__(self, outcome: str, why: str, cause: str | None = None) -> None:
        super().__init__(why)
        self.outcome = outcome
        self.cause = cause


def command(login: Login | None, script: str, folder: Path) -> list[str]:
    """What runs a shell script there, on this machine for None; *folder* takes ssh's files."""
    if login is None:
        return ["sh", "-c", script]
    return ["ssh", *login.words(folder), f"exec sh -c {shlex.quote(script)}"]


def observe(
    login: Login | None, ask: Mapping[str, Any], password: str | None = None,
    python: str = "python3",
) -> dict[str, Any]:  # fmt: skip
    """The NodeState document of a node, of this machine for None, read as root; raises NotSeen.

    *password* is sudo's there.
    """
    try:
        return observation.parsed(program(login, observation.command(ask), password, python))
    except observation.NoObservation as error:
        raise NotSeen("failed", str(error)) from None


def program(
    login: Login | None, arguments: str, password: str | None = None, python: str = "python3"
) -> bytes:
    """What the node program prints there, run as root from memory; raises NotSeen."""
    try:
        content, _ = zipapp.build()
    except zipapp.LibraryRefused as error:
        raise NotSeen("failed", str(error)) from None
    given = b"" if password is None else password.encode() + b"\n"
    script = _script(arguments, len(content), password is not None, python)
    with TemporaryDirectory() as work:
        folder = Path(work)
        (folder / "log").touch()
        try:
            words = command(login, script, folder)
            answer = _converse(words, given + content, _LIMIT_S, _MOST_BYTES)
        except FileNotFoundError as error:
            raise NotSeen("failed", f"{error.filename} is not installed here") from None
        with (folder / "log").open(encoding="utf-8", errors="replace") as log:
            own = log.read(_ERROR_BYTES)
    if answer.exceeded:
        raise NotSeen("failed", f"it printed more than {_MOST_BYTES} bytes and was cut off")
    if answer.code is None:
        raise NotSeen("failed", f"no answer in {_LIMIT_S} s")
    if answer.code:
        raise _why(login, answer, own)
    return answer.out


def _script(arguments: str, size: int, with_password: bool, python: str) -> str:
    boot = base64.b64encode(_BOOT.format(size=size).encode()).decode()
    named = shlex.quote(python)
    line = f'import base64;exec(base64.b64decode("{boot}"))'
    program = f"{named} -I -B -c {shlex.quote(line)} {arguments}"
    body = sudo_script.asked(program) if with_password else _AS_ROOT.format(program=program)
    return f"{zipapp.requires(named)}\n{body}"


def _why(login: Login | None, answer: _Answer, own: str) -> NotSeen:
    said = answer.err.strip().splitlines()
    if login is None or answer.code != 255:
        why = cause(said)
        code = connection_fault.code_of(why)
        return NotSeen("failed", why, code if code in connection_fault.ON_THE_NODE else None)
    # ssh's own log alone is believed: on stderr whoever answers may say the same. What a jump host
    # or a proxy command says stands there, too.
    lines, fault = own.strip().splitlines(), connection_fault.of(own)
    signs = [line.strip("@ \r") for line in lines if fault and fault.signs.search(line)]
    why = [*signs, *said[-1:], *lines[-1:], "ssh gave no reason"][0]
    return NotSeen("unreachable", why, fault.code if fault else None)


@dataclass(frozen=True)
class _Answer:
    """How it ended; *code* is None where its time was up, and *out* has at most the limit."""

    code: int | None
    out: bytes
    err: str
    exceeded: bool


class _Beginning(Thread):
    """Keeps the beginning of what comes through a pipe; the rest is read and dropped.

    The pipe is its own: who keeps it open when the program has ended (a child of ssh, say) holds
    nobody else.
    """

    def __init__(self, most_bytes: int) -> None:
        super().__init__(daemon=True)
        self._pipe, self.given = os.pipe()
        self._most = most_bytes
        self.kept = b""
        self.exceeded = False
        self.when_exceeded: Callable[[], None] = lambda: None
        self.start()

    def run(self) -> None:
        """Until nobody has the pipe open any more."""
        while piece := os.read(self._pipe, 1 << 16):
            room = self._most - len(self.kept)
            self.kept += piece[:room]
            if len(piece) > room:
                self.exceeded = True
                self.when_exceeded()
        os.close(self._pipe)


def _converse(command: Sequence[str], stdin: bytes, limit_s: float, most_bytes: int) -> _Answer:
    """Run *command* with *stdin*, and end it when it prints too much or its time is up."""
    out, err = _Beginning(most_bytes), _Beginning(_ERROR_BYTES)
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=out.given, stderr=err.given
        )
    finally:
        os.close(out.given)
        os.close(err.given)
    out.when_exceeded = process.kill
    feeder = Thread(target=_feed, args=(process.stdin, stdin), daemon=True)
    feeder.start()
    code: int | None = None
    with suppress(subprocess.TimeoutExpired):
        try:
            code = process.wait(limit_s)
        finally:
            process.kill()
    process.wait()
    for helper in (feeder, out, err):
        helper.join(_END_S)
    return _Answer(code, out.kept, err.kept.decode("utf-8", "replace"), out.exceeded)


def _feed(pipe: IO[bytes] | None, content: bytes) -> None:
    if pipe is not None:
        with suppress(OSError), pipe:
            pipe.write(content)
