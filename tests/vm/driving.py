"""The virtual machine for the tests: the real pyinfra against it, and a shell on it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Mapping
from typing import Any

import tests.lab as lab
from tests.e2e.driving import ROOT, Outcome, command
from tests.lab.paths import VM_NAME, lab_paths
from tests.lab.vm import process

RUN_S = 1500
"""How long a run may take: an emulated processor is about ten times slower than this machine's."""
BACK_S = 300
_REPORT = re.compile(r"(reports/\S+)/report\.html")
_BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


class Machine:
    """A hand on the machine. It must be up."""

    name = VM_NAME

    def on(self, script: str, timeout: float = 180) -> str:
        """Standard output of a shell line as root; what it says on standard error is left out."""
        return lab.run(self.name, ["sh", "-c", script], timeout).stdout.strip()

    def code(self, script: str, timeout: float = 180) -> int:
        """Exit status of a shell line as root."""
        return lab.run(self.name, ["sh", "-c", script], timeout).returncode

    def deploy(
        self,
        entry: str = "b200.py",
        *arguments: str,
        data: Mapping[str, Any] | None = None,
        seconds: float = RUN_S,
    ) -> Outcome:
        """Run an entry file to its end; *data* are inventory keys beside those of the lab."""
        words = [f"{key}={json.dumps(value)}" for key, value in (data or {}).items()]
        given = [word for text in words for word in ("--data", text)]
        done = subprocess.run(
            [*command(entry, "--limit", self.name), *given, *arguments],
            cwd=ROOT,
            env=dict(os.environ),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
        )
        found = _REPORT.search(done.stdout)
        return Outcome(
            done.returncode, done.stdout, done.stderr, ROOT / found[1] if found else None
        )

    def boot_id(self) -> str:
        """What is another one after each boot."""
        return self.on(_BOOT_ID)

    def boots(self) -> int:
        """How often the machine has booted since its disk was made, as its firmware counts."""
        return int(self.on("cat /var/lib/b200-lab/boots"))

    def process_id(self) -> int | None:
        """The emulator's process: the same one while the machine reboots."""
        return process.pid_of(lab_paths().vm)

    def reboot(self) -> None:
        """Reboot and wait until it answers with another boot id."""
        before, end = self.boot_id(), time.monotonic() + BACK_S
        self.on("systemctl reboot")
        while (now := self.boot_id_if_any()) in ("", before):
            assert time.monotonic() < end, f"no answer within {BACK_S} s (still {now or 'nothing'})"
            time.sleep(1)

    def boot_id_if_any(self) -> str:
        """The boot id, empty while nothing answers."""
        try:
            return lab.run(self.name, ["sh", "-c", _BOOT_ID], 20).stdout.strip()
        except lab.LabError:
            return ""
