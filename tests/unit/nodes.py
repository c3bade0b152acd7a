"""A node of a run over a machine in memory: what stage, gate and lock tests act on."""

from __future__ import annotations

import json
import time
from base64 import b64decode, b64encode
from contextlib import redirect_stderr, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from pyinfra.api.command import StringCommand
from pyinfra.api.host import Host
from pyinfra.connectors.util import CommandOutput, OutputLine

from b200kit.inventory.parse import parse
from b200kit.inventory.secrets import Secret
from b200kit.inventory.spec import NodeSpec
from b200kit.operations.observe import observe_request
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import Remote
from b200kit.stages import pipeline, watchdog
from tests.fake.machine import Machine
from tests.unit.specs import CATALOGUE, VENDOR_KEY, data

DRIVER = "580.105.08"
"""Of the recorded healthy state, so that the node is fit with this inventory."""
KEYS = {"api_key": Secret(b"canary-api-key"), "hf_token": Secret(b"canary-hf-token")}


def spec(folder: Path, **changes: Any) -> NodeSpec:
    """A sound spec whose key and requirements are files under *folder*."""
    (folder / "vendor.asc").write_text(VENDOR_KEY)
    (folder / "engine.txt").write_text("# python: 3.12\nvllm==0.32.0 --hash=sha256:00\n")
    site = data(driver=DRIVER, nvlsm="2025.06.11-1")
    site["repositories"][0]["key"] = str(folder / "vendor.asc")
    site["engine"]["requirements"] = str(folder / "engine.txt")
    parsed = parse(site | changes, CATALOGUE)
    assert isinstance(parsed, NodeSpec), parsed
    return parsed


def connected(machine: Machine, **changes: Any) -> Node:
    """A node connected to *machine*, not observed yet."""
    node = Node("n01", spec(machine.folder, **changes), dict(KEYS))
    node.remote = Remote(cast(Host, SimpleNamespace(run_shell_command=_shell(machine), data={})), 5)
    return node


def _shell(machine: Machine) -> Any:
    def run(command: StringCommand, **arguments: Any) -> tuple[bool, CommandOutput]:
        done, output = machine.execute(command.get_raw_value(), arguments["_stdin"])
        return done, CommandOutput([OutputLine("stdout", line) for line in output.splitlines()])

    return run


def bare(folder: Path, **changes: Any) -> tuple[Node, Machine]:
    """A node with nothing on it, observed."""
    machine = Machine(folder)
    node = connected(machine, **changes)
    look(node)
    return node, machine


def settled(folder: Path, **changes: Any) -> tuple[Node, Machine]:
    """A node in its desired state, observed; log and output begin after that."""
    key = _key(folder, changes)
    with redirect_stderr(StringIO()):
        if (kept := _KEPT.get(key)) and (found := kept.again(folder, changes)):
            return found
        node, machine = _settle(folder, **changes)
        _KEPT[key] = Kept.of(machine, _plans(node))
    machine.log.clear()
    return node, machine


def _settle(folder: Path, **changes: Any) -> tuple[Node, Machine]:
    machine = Machine(folder)
    node = connected(machine, **changes)
    machine.loaded = node.spec.driver
    look(node)
    for stage in pipeline.stages():
        provide(machine, node, stage.name)
    look(node)
    make(node, "settings")
    _apply(node, "passport")
    watchdog.look(node)
    look(node)
    for stage in pipeline.stages()[-2:]:
        if _apply(node, stage.name):
            look(node)
    machine.log.clear()
    return node, machine


KEPT_S = 60.0
"""So long a settled machine is taken again: what it has measured bears the time of day."""


@dataclass(frozen=True)
class Kept:
    """A settled machine as text, to be had again in another folder for a third of the time."""

    folder: str
    at: float
    text: str
    plans: dict[str, list[str]] | None

    @classmethod
    def of(cls, machine: Machine, plans: dict[str, list[str]] | None) -> Kept:
        """That of now, and what the stages would change on it."""
        known = {name: value for name, value in vars(machine).items() if name != "folder"}
        return cls(str(machine.folder), time.monotonic(), json.dumps(known), plans)

    def again(self, folder: Path, changes: dict[str, Any]) -> tuple[Node, Machine] | None:
        """The same in *folder*, observed; None where it is old, or other things would change."""
        if self.plans is None or time.monotonic() - self.at > KEPT_S:
            return None
        machine = Machine(folder, {})
        vars(machine).update(json.loads(self.text))
        for file in machine.files.values():
            content = b64decode(file["content"])
            if self.folder.encode() in content:
                moved = content.replace(self.folder.encode(), str(folder).encode())
                file["content"] = b64encode(moved).decode()
        node = connected(machine, **changes)
        look(node)
        machine.log.clear()
        return (node, machine) if _plans(node) == self.plans else None


def _plans(node: Node) -> dict[str, list[str]] | None:
    """What the stages would change; None where one cannot say. Plans note things on their node."""
    other = Node(node.name, node.spec, dict(node.secrets), nonce=node.nonce, remote=node.remote)
    other.take_observation(dict(node.state or {}))
    with suppress(StageFailed):
        return planned_by_stage(other)
    return None


_KEPT: dict[str, Kept] = {}


def _key(folder: Path, changes: dict[str, Any]) -> str:
    """What a settled machine follows from: the changes, and the files that they may name."""
    files = [(str(path), path.read_bytes()) for path in sorted(folder.rglob("*")) if path.is_file()]
    return repr((sorted(changes.items()), files)).replace(str(folder), "FOLDER")


def provide(machine: Machine, node: Node, name: str) -> None:
    """Give the machine what a stage wants, past the stage's own commands."""
    stage = next(stage for stage in pipeline.stages() if stage.name == name)
    desired = stage.desired(node, node.layout())
    for file in desired.files:
        machine.write(file.path, file.content, file.mode, file.owner)
    for path in desired.probe_files:
        machine.write(path)
    for package in desired.packages:
        version = package.version or "1"
        exact = version if "-" in version else f"{version}-1"
        entry = {"version": exact, "status": "ii", "hold": package.hold}
        machine.packages[package.name] = entry
    for unit in desired.units:
        machine.units.setdefault(unit.name, {})["enabled"] = "enabled"
        if unit.active:
            machine.start(unit.name)


def look(node: Node) -> None:
    """Observe the node again, without a lock."""
    node.take_observation(node.connected().observe(observe_request(node)))


def planned(node: Node, name: str) -> list[str]:
    """What a stage would change, in its words."""
    stage = next(stage for stage in pipeline.stages() if stage.name == name)
    return [change.what for change in stage.plan(node)]


def planned_by_stage(node: Node) -> dict[str, list[str]]:
    """The same for every stage that would change anything."""
    plans = {stage.name: planned(node, stage.name) for stage in pipeline.stages()}
    return {name: plan for name, plan in plans.items() if plan}


def make(node: Node, name: str) -> None:
    """Plan a stage and make its changes, then look again."""
    _apply(node, name)
    look(node)


def _apply(node: Node, name: str) -> int:
    """Make what a stage would change; how many changes."""
    stage = next(stage for stage in pipeline.stages() if stage.name == name)
    changes = stage.plan(node)
    for change in changes:
        change.apply(node)
    return len(changes)
