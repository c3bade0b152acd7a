"""A node of an inventory as a person reaches it: its login, by that inventory's own keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from b200kit.operations import inventory_process


@dataclass(frozen=True)
class NodeLogin:
    """How pyinfra logs in to a node, as its inventory says; `hosts` is its known_hosts file."""

    hostname: str
    user: str | None = None
    port: int | None = None
    key: str | None = None
    hosts: str | None = None
    ssh_config: str | None = None

    def config(self) -> str:
        """The same as an ssh_config, before which nothing of the user's own comes."""
        given = {
            "HostName": self.hostname, "User": self.user, "Port": self.port,
            "IdentityFile": self.key, "UserKnownHostsFile": self.hosts,
        }  # fmt: skip
        lines = [f'  {name} "{value}"' for name, value in given.items() if value is not None]
        only = ["  GlobalKnownHostsFile /dev/null"] if self.hosts else []
        include = [f'Include "{self.ssh_config}"'] if self.ssh_config else []
        return "\n".join(["Host *", *lines, *only, *include, ""])


def login(path: Path, name: str) -> NodeLogin:
    """The login of a node. Raises InventoryRefused."""
    return inventory_process.ask(read, path, name)


def read(path: Path, name: str) -> NodeLogin:
    """The same, in a process that may import pyinfra's command line."""
    data: dict[str, Any] = inventory_process.host(path, name).data.dict()
    return NodeLogin(
        hostname=str(data.get("ssh_hostname") or name),
        user=data.get("ssh_user"),
        port=data.get("ssh_port"),
        key=_path(data.get("ssh_key")),
        hosts=_path(data.get("ssh_known_hosts_file")),
        ssh_config=_path(data.get("ssh_config_file")),
    )


def _path(value: Any) -> str | None:
    return None if value is None else str(Path(value).expanduser().absolute())
