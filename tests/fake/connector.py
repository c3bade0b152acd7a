"""pyinfra's own @fake connector with a machine behind it: `@machine/NAME` in an inventory.

@fake answers from a fixed table, drops standard input and never fails to connect; this one passes
command and input to a `Machine`, which remembers. pyinfra finds connectors by entry points, so the
fleet's folder on PYTHONPATH holds a .dist-info that names this class.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pyinfra.api.command import StringCommand
from pyinfra.api.exceptions import ConnectError
from pyinfra.connectors.fake import FakeConnector
from pyinfra.connectors.util import CommandOutput, OutputLine

from tests.fake.machine import RUNS_A_SHELL, Machine

FOLDER = "B200_FAKE_FLEET"
COST = "B200_FAKE_COST"
"""Names a file that gets the seconds of CPU that the machines took of the controller's process."""
_spent_s = 0.0
_machines: dict[Path, Machine] = {}


@atexit.register
def _tell() -> None:
    if place := os.environ.get(COST):
        Path(place).write_text(str(_spent_s))


class MachineConnector(FakeConnector):
    """Runs commands on the machine that the fleet keeps under the host's name."""

    @staticmethod
    def make_names_data(name: str | None = None) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
        """One host, called as the machine is."""
        yield str(name), {}, []

    def connect(self) -> None:
        """Connect, unless the machine is off."""
        if not self._machine().reachable:
            raise ConnectError("SSH error (timed out)")

    def run_shell_command(
        self,
        command: str | StringCommand,
        print_output: bool = False,
        print_input: bool = False,
        **arguments: Any,
    ) -> tuple[bool, CommandOutput]:
        """Run one command, and keep what it changed."""
        text = command if isinstance(command, str) else command.get_raw_value()
        given = arguments.get("_stdin")
        with self._alone() as machine:
            wait = machine.waits_at(text)
            if wait is None:
                return _executed(machine, text, given)
        wait()
        with self._alone() as machine:
            return _executed(machine, text, given)

    @contextmanager
    def _alone(self) -> Iterator[Machine]:
        """The machine, which another controller would change meanwhile only to lose it."""
        global _spent_s
        with (self._folder() / "machine.lock").open("w") as lock:
            while not _locked(lock):
                time.sleep(0.002)
            began_s = time.process_time()
            machine = self._machine()
            _spent_s += time.process_time() - began_s
            yield machine

    def _machine(self) -> Machine:
        """The machine as this process left it, unless another one has changed it since."""
        folder = self._folder()
        if folder not in _machines or not _machines[folder].is_as_saved():
            _machines[folder] = Machine.load(folder)
        return _machines[folder]

    def _folder(self) -> Path:
        return Path(os.environ[FOLDER]) / self.host.name


def _executed(machine: Machine, text: str, given: str | None) -> tuple[bool, CommandOutput]:
    global _spent_s
    began_s = time.process_time()
    try:
        done, output = machine.execute(text, given)
    finally:
        machine.save()
        # A machine that runs a shell lets other nodes' work go on meanwhile.
        if RUNS_A_SHELL not in text:
            _spent_s += time.process_time() - began_s
    return done, CommandOutput([OutputLine("stdout", line) for line in output.splitlines()])


def _locked(lock: IO[str]) -> bool:
    """Try to; to wait for it would keep pyinfra's other hosts from going on."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
