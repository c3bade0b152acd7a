"""What a lab host is called by its management controller."""

from __future__ import annotations

import uuid


def system_id(name: str) -> str:
    """The id of a host's Redfish system: always the same."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.b200-lab"))
