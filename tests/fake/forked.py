"""The pyinfra CLI in processes that are forked from one which has imported it.

Most of the CPU of a run over few machines goes into importing pyinfra, its connectors and b200kit.
So one process a session of tests does that, and forks for each run: the run is a process of its
own, with its own arguments, environment, directory, files, signals and exit code.
"""

from __future__ import annotations

import ast
import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

ROOT = Path(__file__).resolve().parents[2]
PYINFRA = Path(sys.executable).with_name("pyinfra")
_LONGEST = 1 << 16  # of a message, in bytes; Linux carries a datagram of 200 kB


class Forked:
    """A run that has begun, with the methods of `subprocess.Popen` that tests use."""

    def __init__(
        self, words: Sequence[str | Path], env: Mapping[str, str], out: IO[str] | None = None
    ) -> None:
        """Begin `pyinfra WORDS` in the checkout; *out* takes stdout and stderr, else two pipes."""
        self.returncode: int | None = None
        self.peak_bytes = 0
        self._told, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pipes = [] if out else [os.pipe(), os.pipe()]
        nothing = os.open(os.devnull, os.O_RDONLY)
        outputs = [out.fileno()] * 2 if out else [end for _, end in pipes]
        asked = {"argv": [str(PYINFRA), *map(str, words)], "env": dict(env)}
        socket.send_fds(
            _parent(), [json.dumps(asked).encode()], [theirs.fileno(), nothing, *outputs]
        )
        for file in (theirs.detach(), nothing, *(end for _, end in pipes)):
            os.close(file)
        texts: list[IO[str] | None] = [os.fdopen(end) for end, _ in pipes] or [None, None]
        self.stdout, self.stderr = texts
        self.pid = int(self._hear()["pid"])

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended."""
        if self.returncode is None:
            self._told.settimeout(timeout)
            try:
                said = self._hear()
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired("pyinfra", timeout or 0) from None
            self._told.close()
            self.returncode, self.peak_bytes = said["code"], said["peak_bytes"]
            _note(said["cpu_s"])
        assert self.returncode is not None
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All that it prints, on stdout and stderr; one that does not end is killed."""
        assert self.stdout
        assert self.stderr
        with self.stdout, self.stderr, ThreadPoolExecutor() as readers:
            texts = [readers.submit(pipe.read) for pipe in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
        out, err = (text.result() for text in texts)
        return out, err

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def _hear(self) -> dict[str, Any]:
        said = self._told.recv(_LONGEST)
        assert said, "the process that forks the runs has ended"
        document: dict[str, Any] = json.loads(said)
        return document


_spent_s = 0.0


def _note(seconds: float) -> None:
    """Add to the CPU that all runs took, which no `os.times` of this process has."""
    global _spent_s
    _spent_s += seconds


@cache
def _parent() -> socket.socket:
    """The way to the process that forks, which ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fake.forked", str(theirs.fileno())],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
    )
    theirs.close()

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait()

    return ours


@dataclass(frozen=True)
class _Asked:
    """A run as it is asked for, and its standard files."""

    argv: list[str]
    env: dict[str, str]
    files: list[int]


def _forked(asked_on: socket.socket) -> _Asked:
    """Fork for each run that is asked for; returns in the processes of the runs alone."""
    # gevent's own would begin its loop in the process that all others are made of.
    from gevent import monkey  # type: ignore[import-untyped]

    fork = monkey.get_original("os", "fork")
    while True:
        message, files, _, _ = socket.recv_fds(asked_on, _LONGEST, 4)
        if not message:
            os._exit(0)
        if not fork():
            told = socket.socket(fileno=files.pop(0))
            if not (run := fork()):
                told.close()
                return _Asked(**json.loads(message), files=files)
            _tell_the_end(told, run, files)
        for file in files:
            os.close(file)
        _bury()


def _tell_the_end(told: socket.socket, run: int, files: Sequence[int]) -> None:
    """Wait for a run, of which nothing is held open here, and tell how it ended."""
    for file in files:
        os.close(file)
    told.send(json.dumps({"pid": run}).encode())
    _, status, usage = os.wait4(run, 0)
    end = {
        "code": os.waitstatus_to_exitcode(status),
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
    }
    # Whoever asked may have left.
    with suppress(BrokenPipeError):
        told.send(json.dumps(end).encode())
    os._exit(0)


def _bury() -> None:
    """Take note of those that have told an end."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _import_all() -> None:
    """What a run imports: pyinfra's command line and connectors, and what our entry files name."""
    import pyinfra_cli.main  # type: ignore[import-untyped]  # noqa: F401
    from pyinfra.api.connectors import get_all_connectors

    import tests.fake.connector  # noqa: F401

    get_all_connectors()
    for entry in (ROOT / "deploy").glob("*.py"):
        tree = ast.parse(entry.read_text(encoding="utf-8"))
        tree.body = [line for line in tree.body if isinstance(line, ast.Import | ast.ImportFrom)]
        exec(compile(tree, entry, "exec"))


def _read_all() -> None:
    """What each run reads of the checkout, and keeps: the catalogue and the templates."""
    from b200kit.catalog import load
    from b200kit.report.html.templates import template
    from b200kit.run import render
    from b200kit.run.places import TEMPLATES

    load.load()
    for path in TEMPLATES.rglob("*.j2"):
        name = str(path.relative_to(TEMPLATES))
        if name.startswith("report/"):
            template(name)
        else:
            # It is compiled, and then lacks values.
            with suppress(render.RenderError):
                render.render(name)


def _become(asked: _Asked, found: Sequence[str]) -> None:
    """Be as a process that was begun by these words; *found* is where modules are found anyway."""
    for number, file in enumerate(asked.files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(asked.env)
    sys.argv[:] = asked.argv
    own = asked.env.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [str(PYINFRA.parent), *filter(None, own), *found]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from b200kit.reprovision.fleet_limits import SAFETY, Safety
    from b200kit.run import session

    # It listens to a run as soon as it is imported in one.
    sys.modules.pop("b200kit.operations.connector", None)
    # What is made from these at the first import.
    vars(session.RUN).update(vars(session.Session(entry=session.entry())))
    vars(SAFETY).update(vars(Safety()))


def _ended() -> int:
    """Run the command line; the exit code."""
    from pyinfra_cli.main import main as run

    try:
        run()
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _leave(code: int) -> NoReturn:
    """End as Python does, but for freeing all that was imported: a third of a second."""
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = 120
    os._exit(code)


def main(argv: Sequence[str]) -> None:
    """Fork runs for whoever holds the other end of an open socket."""
    # A terminal's Ctrl-C is for whoever runs the tests.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Before gevent replaces the class of sockets.
    asked_on = socket.socket(fileno=int(argv[0]))
    _import_all()
    _read_all()
    gc.freeze()
    asked = _forked(asked_on)
    asked_on.close()
    _become(asked, [path for path in sys.path if Path(path) not in (Path(), ROOT)])
    _leave(_ended())


if __name__ == "__main__":
    main(sys.argv[1:])
