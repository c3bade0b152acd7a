"""What a run would refuse of an inventory before its first connection, secrets apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyinfra.api.host import Host

from b200kit.inventory.keys.problem import Problem
from b200kit.operations import (
    connections,
    inventory_process,
    inventory_text,
    named_files,
    preflight,
)
from b200kit.run import host_keys


@dataclass(frozen=True)
class InventoryLook:
    """An inventory as a run reads it: its nodes, which of them name no ssh key, what is wrong."""

    nodes: tuple[str, ...]
    keyless: tuple[str, ...]
    problems: tuple[str, ...]


@inventory_process.asked
def of_inventory(path: Path) -> InventoryLook:
    """The look at an inventory; nothing is connected to. Raises InventoryRefused."""
    if unlisted := inventory_text.unlisted(path):
        raise inventory_process.InventoryRefused(unlisted)
    connections.note_lists()
    hosts = inventory_process.hosts(path)
    lines = [f"{host.name}: {each.key}: {each.message}" for host in hosts for each in _of(host)]
    lines = [*connections.of_lists(hosts), *inventory_text.faults(path), *lines]
    if foreign := [*connections.without_ssh(hosts)]:
        raise inventory_process.InventoryRefused(foreign)
    if empty := connections.without_nodes(str(path), len(hosts)):
        lines.append(empty)
    keyless = (host.name for host in hosts if not host.data.get("ssh_key"))
    return InventoryLook(
        tuple(host.name for host in hosts), tuple(keyless), tuple(dict.fromkeys(lines))
    )


def _of(host: Host) -> Iterator[Problem]:
    wrong = [*host_keys.problems(host), *connections.of_other_kinds(host)]
    yield from wrong
    if not wrong and (unknown := host_keys.missing(host)):
        yield Problem(host_keys.FILE, unknown)
    spec = preflight.parsed(host, {})
    if isinstance(spec, list):
        yield from spec
    else:
        yield from named_files.away(spec)
        # Keys can be looked at only when every file is there.
        yield from list(named_files.missing(spec)) or named_files.wrong(spec)
