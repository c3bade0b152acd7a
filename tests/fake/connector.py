"""pyinfra's own @fake connector with a machine behind it: `@machine/NAME` in an inventory.

@fake answers from a fixed table, drops standard input and never fails to connect; this one passes
command and input to a `Machine`, which remembers. pyinfra finds connectors by entry points, so the
fleet's folder on PYTHONPATH holds a .dist-info that names this class.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyinfra.api.command import StringCommand
from pyinfra.api.exceptions import ConnectError
from pyinfra.connectors.fake import FakeConnector
from pyinfra.connectors.util import CommandOutput, OutputLine

from tests.fake.machine import RUNS_A_SHELL, Machine

FOLDER = "B200_FAKE_FLEET"
COST = "B200_FAKE_COST"
"""Names a file that gets the seconds of CPU that the machines took of the controller's process."""
_spent_s = 0.0


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
        global _spent_s
        began_s = time.process_time()
        machine = self._machine()
        text = command if isinstance(command, str) else command.get_raw_value()
        try:
            done, output = machine.execute(text, arguments.get("_stdin"))
        finally:
            machine.save()
            # A machine that runs a shell lets other nodes' work go on meanwhile.
            if RUNS_A_SHELL not in text:
                _spent_s += time.process_time() - began_s
        return done, CommandOutput([OutputLine("stdout", line) for line in output.splitlines()])

    def _machine(self) -> Machine:
        return Machine.load(Path(os.environ[FOLDER]) / self.host.name)
