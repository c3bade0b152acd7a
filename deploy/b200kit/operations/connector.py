"""How we come into a pyinfra run whose inventory is not there: it loads all packages' connectors.

Inventories call `preflight.attach()` themselves; where pyinfra finds none, no other line of ours is
executed, and a run over no node ends well. This connector connects to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyinfra.api.exceptions import InventoryError
from pyinfra.connectors.base import BaseConnector

from b200kit.run.session import entry

if entry():
    from b200kit.operations import preflight

    preflight.attach()


class Listener(BaseConnector):
    """No connector of hosts."""

    @staticmethod
    def make_names_data(name: str | None = None) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
        """Refuse `@b200kit`."""
        raise InventoryError("@b200kit has no hosts")
