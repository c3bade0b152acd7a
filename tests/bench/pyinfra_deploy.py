"""The states of nodes as a pyinfra deploy file of ordinary operations, without b200kit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from b200kit.node.state.drift import File, NodeUnit
from tests.bench import node_states
from tests.bench.node_states import States

DEPLOY, INVENTORY = "deploy.py", "inventory.py"
_HEAD = """\
from pyinfra import host
from pyinfra.facts.server import Command
from pyinfra.operations import apt, files, server, systemd

SOURCES = {sources!r} + "/" + host.name
"""
_HOLDS = """\
held = (host.get_fact(Command, command="apt-mark showhold") or "").split()
for package in host.loop([name for name in {names!r} if name not in held]):
    server.shell(name=f"Hold {{package}}", commands=[f"apt-mark hold {{package}}"])
"""


def deploy(states: States, sources: Path) -> str:
    """Python text of the deploy; a host's files lie in *sources*/HOST (`node_states.source`)."""
    return "\n".join([_HEAD.format(sources=str(sources)), *_operations(states)])


def _operations(states: States) -> Iterator[str]:
    yield from map(_file, states.files)
    names = [f"{p.name}={p.version}" if p.version else p.name for p in states.packages]
    yield f"apt.packages(packages={names!r}, no_recommends=True, update=False)\n"
    yield _HOLDS.format(names=list(states.holds))
    yield from map(_unit, states.units)


def _file(file: File) -> str:
    user, group = file.owner.split(":")
    return (
        f"files.put(src=SOURCES + {f'/{node_states.source(file)}'!r}, dest={file.path!r}, "
        # It looks for no directory, which all are there.
        f"user={user!r}, group={group!r}, mode={f'{file.mode:o}'!r}, create_remote_dir=False)\n"
    )


def _unit(unit: NodeUnit) -> str:
    running = True if runs(unit) else None
    return f"systemd.service(service={unit.name!r}, enabled=True, running={running})\n"


def runs(unit: NodeUnit) -> bool:
    """Whether it is held running; pyinfra takes an active target for one that is not (3.10)."""
    return unit.active and not unit.name.endswith(".target")


def inventory(connections: Mapping[str, Mapping[str, Any]]) -> str:
    """Python text of an inventory."""
    hosts = [(name, {"ssh_user": "root", **dict(data)}) for name, data in connections.items()]
    return f"nodes = {hosts!r}\n"
