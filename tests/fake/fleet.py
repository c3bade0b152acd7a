"""A fleet of machines in memory, and the real pyinfra CLI run over it on the real entry files."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from b200kit.report.files import stored
from b200kit.store import database
from tests.fake.connector import FOLDER
from tests.fake.forked import PYINFRA, ROOT, Forked
from tests.fake.machine import Machine, State
from tests.unit.specs import VENDOR_KEY, data

CANARIES = {"B200_FAKE_KEY": "canary-api-key-5f1c", "B200_FAKE_TOKEN": "canary-hf-token-77ab"}
_OPERATION = re.compile(r"Starting operation: (.+?) *$", re.MULTILINE)
_REPORT = re.compile(r'([^\s"]*reports/\S+)/report\.html')


@dataclass(frozen=True)
class Outcome:
    """A finished run: exit code, what it printed, each host's record and all the report's text."""

    code: int
    stdout: str
    stderr: str
    hosts: dict[str, dict[str, Any]]
    report: str

    @property
    def outcomes(self) -> dict[str, str]:
        """How the run ended for each host."""
        return {name: str(record["outcome"]) for name, record in self.hosts.items()}

    @property
    def operations(self) -> list[str]:
        """The operations in the order they ran."""
        return _OPERATION.findall(self.stderr)

    def described(self, name: str) -> str:
        """Stage and cause of a host that left the run."""
        return f"{self.hosts[name]['stage']}: {self.hosts[name]['error']}"


class Fleet:
    """Machines by name, under one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: list[str] = []
        # Python that the inventory begins with.
        self.preamble = ""
        (folder / "group_data").mkdir(parents=True)
        self._register_connector()
        self._write_site()

    def add(self, name: str, hardware: State | None = None) -> Machine:
        """A bare machine; save it again after changing it."""
        (self.folder / name).mkdir()
        machine = Machine(self.folder / name, hardware)
        machine.save()
        self.names.append(name)
        return machine

    def copy(self, folder: Path, *names: str) -> Fleet:
        """A fleet of its own that begins where this one is, with only *names* of its machines."""
        shutil.copytree(self.folder, folder)
        site = folder / "group_data" / "nodes.py"
        site.write_text(site.read_text().replace(str(self.folder), str(folder)))
        other = object.__new__(Fleet)
        other.folder, other.names, other.preamble = folder, list(names), self.preamble
        return other

    def machine(self, name: str) -> Machine:
        """A machine as it is now."""
        return Machine.load(self.folder / name)

    def run(self, entry: str, *arguments: str, yes: bool = True) -> Outcome:
        """Run an entry file over the whole fleet, as a person does."""
        return outcome_of(self.begin(entry, *arguments, yes=yes))

    def interrupted(self, entry: str, at: Path) -> Outcome:
        """The same, and Ctrl-C once a file is there."""
        process = self.begin(entry)
        while not at.exists() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        return outcome_of(process)

    def begin(self, entry: str, *arguments: str, yes: bool = True) -> Forked:
        """The pyinfra process of a run."""
        command, options = self.command(entry, *arguments, yes=yes)
        return Forked(command[1:], options["env"])

    def command(
        self, entry: str, *arguments: str, yes: bool = True
    ) -> tuple[list[str | Path], dict[str, Any]]:
        """The command line of a run, and how its process is to be begun."""
        hosts = [f"@machine/{name}" for name in self.names]
        inventory = self.folder / "site.py"
        attach = "from b200kit.operations import preflight\npreflight.attach()\n"
        # Another run may be reading it.
        new = inventory.with_suffix(".new")
        new.write_text(f"{self.preamble}{attach}nodes = {hosts!r}\n")
        new.rename(inventory)
        confirm = ["-y"] if yes else []
        environment = os.environ | CANARIES | self._environment()
        words: list[str | Path] = [PYINFRA, inventory, f"deploy/{entry}", *confirm, *arguments]
        return words, {"cwd": ROOT, "env": environment, "stdin": subprocess.DEVNULL}

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.folder / "plugin"), str(ROOT)])
        own = {database.VARIABLE: str(self.folder / "b200.db")}
        kept = {name: os.environ.get(name, where) for name, where in own.items()}
        return {FOLDER: str(self.folder), "PYTHONPATH": path, "COLUMNS": "200", **kept}

    def _register_connector(self) -> None:
        info = self.folder / "plugin" / "fake_fleet-0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-fleet\nVersion: 0\n")
        (info / "entry_points.txt").write_text(
            "[pyinfra.connectors]\nmachine = tests.fake.connector:MachineConnector\n"
        )

    def _write_site(self) -> None:
        (self.folder / "vendor.asc").write_text(VENDOR_KEY)
        (self.folder / "engine.txt").write_text("# python: 3.12\nvllm==0.32.0 --hash=sha256:00\n")
        site = data(
            driver="580.105.08",
            nvlsm="2025.06.11-1",
            api_key={"env": "B200_FAKE_KEY"},
            hf_token={"env": "B200_FAKE_TOKEN"},
        )
        site["repositories"][0]["key"] = str(self.folder / "vendor.asc")
        site["engine"]["requirements"] = str(self.folder / "engine.txt")
        lines = [f"{key} = {value!r}\n" for key, value in site.items()]
        (self.folder / "group_data" / "nodes.py").write_text("".join(lines))


def outcome_of(run: Forked) -> Outcome:
    """What came of a run; one that does not end is killed."""
    stdout, stderr = run.communicate(timeout=600)
    folder = reported(stdout)
    hosts_of, report = taken_away(folder) if folder else ({}, "")
    return Outcome(run.wait(), stdout, stderr, hosts_of, report)


def reported(stdout: str) -> Path | None:
    """The folder of the report that a run named."""
    found = _REPORT.search(stdout)
    return ROOT / found[1] if found else None


def taken_away(directory: Path) -> tuple[dict[str, dict[str, Any]], str]:
    """Each host's record and the text of a report, which is removed: it is no real run's."""
    documents = {path.name: stored(path) for path in directory.glob("*.json*")}
    hosts = {
        name: documents[host["file"]] for name, host in documents["summary.json"]["hosts"].items()
    }
    others = [path.read_text() for path in directory.iterdir() if path.name not in documents]
    texts = [*others, *map(json.dumps, documents.values())]
    shutil.rmtree(directory)
    return hosts, "\n".join(texts)
