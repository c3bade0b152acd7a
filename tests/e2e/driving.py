"""Drive the real pyinfra CLI against the lab as a person does, and read what it left."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tests.lab as lab
from b200kit.report.files import stored
from tests.lab.paths import lab_paths

ROOT = Path(__file__).resolve().parents[2]
PYINFRA = Path(sys.executable).with_name("pyinfra")
_REPORT = re.compile(r"(\S*reports/\S+)/report\.html")


@dataclass(frozen=True)
class Outcome:
    """One finished run: its exit code, what it printed, and its record by host."""

    code: int
    stdout: str
    stderr: str
    directory: Path | None

    @property
    def said(self) -> str:
        """Everything that was printed."""
        return self.stdout + self.stderr

    @property
    def summary(self) -> dict[str, Any]:
        """summary.json of the run."""
        assert self.directory is not None, self.said
        document: dict[str, Any] = json.loads((self.directory / "summary.json").read_text())
        return document

    def host(self, name: str) -> dict[str, Any]:
        """The whole record of one host."""
        assert self.directory is not None, self.said
        document: dict[str, Any] = stored(self.directory / f"{name}.json.gz")
        return document

    def outcome(self, name: str) -> str:
        """How the run ended for one host."""
        return str(self.host(name)["outcome"])

    def described(self, name: str) -> str:
        """Outcome, stage and cause in one string, for assertions and their messages."""
        record = self.host(name)
        return f"{record['outcome']} at {record['stage']}: {record['error']}"


def command(entry: str, *arguments: str, inventory: str = "inventories/lab.py") -> list[str]:
    """The command line a person types."""
    return [str(PYINFRA), inventory, f"deploy/{entry}", "-y", *arguments]


def plan(entry: str = "b200.py", *arguments: str, **environment: str) -> Outcome:
    """What a person sees who asks what would change; with -y pyinfra would look at nothing."""
    asked = [word for word in command(entry, "--dry", *arguments) if word != "-y"]
    return _run(asked, environment)


def deploy(
    entry: str = "b200.py",
    *arguments: str,
    inventory: str = "inventories/lab.py",
    **environment: str,
) -> Outcome:
    """Run an entry file to its end."""
    return _run(command(entry, *arguments, inventory=inventory), environment)


def front(*words: str, stdin: str = "", **environment: str) -> Outcome:
    """Run `b200` over the lab's inventory, with what a person types into it."""
    command, *others = words
    program = [sys.executable, "-m", "b200kit.cli", command, "-i", "inventories/lab.py"]
    return _run([*program, *others], environment, stdin)


def _run(asked: list[str], environment: dict[str, str], stdin: str = "") -> Outcome:
    done = subprocess.run(
        asked,
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        input=stdin,
        # Ends a run that hangs; real vLLM beside other labs on two cores takes many minutes.
        timeout=1200,
        check=False,
    )
    found = _REPORT.search(done.stdout)
    return Outcome(done.returncode, done.stdout, done.stderr, ROOT / found[1] if found else None)


def on(name: str, script: str) -> str:
    """stdout of a shell line on a node, run past SSH so that it leaves no trace in the journal."""
    return lab.run(name, ["sh", "-c", script]).stdout.strip()


# What was logged by now is in the journal: on a busy machine it comes later than whoever logged it.
SYNCED = "journalctl --sync"


def remote_commands(name: str, since: str) -> int:
    """Commands sshd itself counted on a node since a journal cursor (OpenSSH 10: its sessions)."""
    asked = "journalctl -o cat --no-pager -t sshd -t sshd-session"
    log = on(name, f"{SYNCED}; {asked} --after-cursor='{since}'")
    return sum(line.startswith("Starting session: ") for line in log.splitlines())


def cursor(name: str) -> str:
    """The end of a node's journal now."""
    line = on(name, f"{SYNCED}; journalctl --show-cursor -n 0 -o cat")
    return line.partition("cursor: ")[2].strip()


def wait_for_boot(name: str, before: str, seconds: float = 300) -> None:
    """Return when a node answers over SSH with another boot id than *before*."""
    end = time.monotonic() + seconds
    probe = ["ssh", "-F", str(lab_paths().ssh_config), "-o", "ConnectTimeout=2", name]
    while True:
        seen = subprocess.run(
            [*probe, "cat", "/proc/sys/kernel/random/boot_id"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        ).stdout.strip()
        if seen and seen != before:
            return
        assert time.monotonic() < end, f"{name} did not come back within {seconds:.0f} s"
        time.sleep(0.1)


def ever_started(name: str, unit: str) -> bool:
    """Whether systemd ever began to start a unit on the node."""
    return bool(on(name, f"journalctl -o cat --no-pager UNIT={unit} | grep -m1 ^Starting"))


@contextmanager
def unwatched(name: str) -> Iterator[None]:
    """A node whose watchdog, which would take a faulty replica out before it is measured, rests."""
    on(name, "systemctl stop b200-agent.service")
    try:
        yield
    finally:
        on(name, "systemctl start b200-agent.service")
