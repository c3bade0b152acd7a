"""A new image by a command of the site's own, run on the controller.

It is given B200_NODE (the node's name in the inventory), B200_ADDRESS, B200_ACT (the id of this
act) and B200_IMAGE, says how far it is on standard error, one line at a time, and ends with 0 when
the image is there; its last line on standard output may then be JSON, {"host_keys": ["ssh-ed25519
AAAA...", ...]}. A run that was killed calls it again with the same B200_ACT: it must then continue
with the image it has begun, not begin another.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from typing import IO, Any

from b200kit.inventory.keys.reprovision import Reimage
from b200kit.node.lib.documents import decode
from b200kit.reprovision.actions import ActionFailed, ActionRefused
from b200kit.reprovision.ledger_line import IntentLine
from b200kit.reprovision.reimage import Progress
from b200kit.run import known_hosts
from b200kit.run.node import Node


class System:
    """See b200kit.reprovision.reimage.Provisioner."""

    poll_s = 1.0

    def __init__(self, node: Node, requested: Reimage) -> None:
        self._node, self._requested = node, requested
        self._process: subprocess.Popen[bytes] | None = None
        # Files, so that it continues though nobody reads.
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._answer: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._read, self._last = 0, ""

    def facts(self) -> dict[str, Any]:
        """The id of the action is all it needs."""
        return {}

    def advance(self, intent: IntentLine) -> Progress:
        """Start it, pass on what it says, and take its answer when it has ended."""
        self._process = self._process or self._start(intent)
        code = self._process.poll()
        lines = self._new_lines(ended=code is not None)
        if code is None:
            return Progress(lines)
        if code:
            why = f": {self._last}" if self._last else ""
            raise ActionFailed(f"{self._name()} failed ({_ending(code)}){why}")
        return Progress(lines, True, self._host_keys())

    def close(self) -> None:
        """Ends the command and all it has started, when it still runs."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._errors.close()
        self._answer.close()

    def _start(self, intent: IntentLine) -> subprocess.Popen[bytes]:
        variables = {
            "B200_NODE": self._node.name,
            "B200_ACT": intent.id,
            "B200_ADDRESS": _address(self._node),
            "B200_IMAGE": self._requested.image or "",
        }
        try:
            return subprocess.Popen(
                self._requested.command,
                stdin=subprocess.DEVNULL,
                stdout=self._answer,
                stderr=self._errors,
                env=os.environ | variables,
                start_new_session=True,
            )
        except OSError as error:
            raise ActionRefused(f"{self._name()} cannot be run: {error.strerror}") from None

    def _new_lines(self, ended: bool) -> tuple[str, ...]:
        """What is new on its standard error; the end of a line may still be missing there."""
        new = os.pread(self._errors.fileno(), 1 << 20, self._read)
        whole = new if ended else new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        stripped = [line.strip() for line in whole.decode(errors="replace").splitlines()]
        lines = tuple(line for line in stripped if line)
        self._last = lines[-1] if lines else self._last
        return lines

    def _host_keys(self) -> tuple[str, ...]:
        self._answer.seek(0)
        lines = self._answer.read().decode(errors="replace").splitlines()
        last = next((line for line in reversed(lines) if line.strip()), "{}")
        try:
            keys = decode(dict[str, list[str]], last)["host_keys"] if last != "{}" else []
            return known_hosts.keys_in("\n".join(keys))
        except (ValueError, KeyError):
            raise ActionFailed(
                f'the last line that {self._name()} printed is not {{"host_keys": [...]}}'
            ) from None

    def _name(self) -> str:
        return f"the re-image command {self._requested.command[0]}"


def _ending(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"signal {-code}"


def _address(node: Node) -> str:
    host = node.remote.host if node.remote else None
    return str((host.data.get("ssh_hostname") if host else None) or node.name)
