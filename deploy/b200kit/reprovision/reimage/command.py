"""A new image by a command of the site's own, run on the controller.

It is given B200_NODE (the node's name in the inventory), B200_ADDRESS, B200_ACT (the id of this
act) and B200_IMAGE, says how far it is on standard error, one line at a time, and ends with 0 when
the image is there; its last line on standard output may then be JSON, {"host_keys": ["ssh-ed25519
AAAA...", ...]}. A run that was killed calls it again with the same B200_ACT: it must then go on
with the image it has begun, not begin another.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from typing import IO, Any

from b200kit.inventory.keys.reprovision import Reimage
from b200kit.reprovision.actions import ActFailed, ActRefused, Intent
from b200kit.reprovision.reimage import Progress
from b200kit.run import known_hosts
from b200kit.run.node import Node


class System:
    """See b200kit.reprovision.reimage.Provisioner."""

    poll_s = 1.0

    def __init__(self, node: Node, asked: Reimage) -> None:
        self._node, self._asked = node, asked
        self._process: subprocess.Popen[bytes] | None = None
        # Files, so that nobody has to read for it to go on.
        self._told: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._answer: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._read, self._last = 0, ""

    def facts(self) -> dict[str, Any]:
        """The id of the act is all it needs."""
        return {}

    def advance(self, intent: Intent) -> Progress:
        """Start it, pass on what it says, and take its answer when it has ended."""
        self._process = self._process or self._start(intent)
        code = self._process.poll()
        told = self._new_lines(ended=code is not None)
        if code is None:
            return Progress(told)
        if code:
            why = f": {self._last}" if self._last else ""
            raise ActFailed(f"{self._name()} failed ({_ending(code)}){why}")
        return Progress(told, True, self._host_keys())

    def close(self) -> None:
        """Ends the command and all it has started, when it still runs."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._told.close()
        self._answer.close()

    def _start(self, intent: Intent) -> subprocess.Popen[bytes]:
        told = {
            "B200_NODE": self._node.name,
            "B200_ACT": str(intent.get("id", "")),
            "B200_ADDRESS": _address(self._node),
            "B200_IMAGE": self._asked.image or "",
        }
        try:
            return subprocess.Popen(
                self._asked.command,
                stdin=subprocess.DEVNULL,
                stdout=self._answer,
                stderr=self._told,
                env=os.environ | told,
                start_new_session=True,
            )
        except OSError as error:
            raise ActRefused(f"{self._name()} cannot be run: {error.strerror}") from None

    def _new_lines(self, ended: bool) -> tuple[str, ...]:
        """What is new on its standard error; the end of a line may still be missing there."""
        new = os.pread(self._told.fileno(), 1 << 20, self._read)
        whole = new if ended else new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        lines = [line.strip() for line in whole.decode(errors="replace").splitlines()]
        told = tuple(line for line in lines if line)
        self._last = told[-1] if told else self._last
        return told

    def _host_keys(self) -> tuple[str, ...]:
        self._answer.seek(0)
        lines = self._answer.read().decode(errors="replace").splitlines()
        last = next((line for line in reversed(lines) if line.strip()), "{}")
        try:
            told = json.loads(last)["host_keys"] if last != "{}" else []
            if not isinstance(told, list):
                raise TypeError
            return known_hosts.keys_in("\n".join(str(key) for key in told))
        except (ValueError, KeyError, TypeError):
            raise ActFailed(
                f'the last line that {self._name()} printed is not {{"host_keys": [...]}}'
            ) from None

    def _name(self) -> str:
        return f"the re-image command {self._asked.command[0]}"


def _ending(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"signal {-code}"


def _address(node: Node) -> str:
    host = node.remote.host if node.remote else None
    return str((host.data.get("ssh_hostname") if host else None) or node.name)
