"""A node of an inventory as a person reaches it: its login, by that inventory's own keys."""

from __future__ import annotations

from pathlib import Path

from b200kit.operations import inventory_process
from b200kit.run import login as logins
from b200kit.run.login import Login


@inventory_process.asked
def login(path: Path, name: str) -> Login:
    """The login of a node. Raises InventoryRefused."""
    return logins.of_data(name, inventory_process.host(path, name).data.dict())
