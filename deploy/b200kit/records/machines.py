"""Which machine a node is, by its firmware: kept on the controller for when it no longer answers.

What the newest run read is a line of the store. Whoever is about to switch
a node's power holds it against what the management controller reports.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from b200kit.node.lib import documents
from b200kit.node.lib.documents import NEEDED, Pattern
from b200kit.store.database import SITE

LOG = "machine"
# What boards say that nobody gave a number of their own (SMBIOS 3.7, 7.2.1: all bits 0 or 1; the
# others are defaults of board firmware).
_NO_UUID = {"0" * 32, "f" * 32, "03000200040005000006000700080009"}
_NO_SERIAL = {
    "", "0", "0123456789", "123456789", "1234567890", "default", "default string", "n/a", "na",
    "none", "not specified", "system serial number", "to be filled by o.e.m.", "unknown",
}  # fmt: skip


@dataclass(frozen=True)
class MachineIdentity:
    """A system's UUID, 32 hex digits, and serial number; empty where it has none of its own."""

    uuid: Annotated[str, Pattern("[0-9a-f]{32}|")] = field(default="", metadata=NEEDED)
    serial: str = field(default="", metadata=NEEDED)

    def __str__(self) -> str:
        known = [f"UUID {uuid.UUID(self.uuid)}"] if self.uuid else []
        known += [f"serial number {self.serial}"] if self.serial else []
        return ", ".join(known) or "neither UUID nor serial number"


def machine(system_uuid: object, serial: object) -> MachineIdentity:
    """The machine that these readings tell of; whatever is no reading tells nothing."""
    digits = str(system_uuid).strip().lower().replace("-", "")
    is_hex = len(digits) == 32 and set(digits) <= set("0123456789abcdef")
    number = serial.strip() if isinstance(serial, str) else ""
    is_own = number.isprintable() and len(number) <= 64 and number.lower() not in _NO_SERIAL
    return MachineIdentity(
        digits if is_hex and digits not in _NO_UUID else "", number if is_own else ""
    )


def of_state(state: Mapping[str, Any] | None) -> MachineIdentity:
    """What an observation tells."""
    host = (state or {}).get("host")
    read = host if isinstance(host, dict) else {}
    return machine(read.get("product_uuid"), read.get("product_serial"))


def keep(node: str, state: Mapping[str, Any] | None) -> None:
    """Keep what an observation tells, if it tells anything new. Raises StoreError."""
    seen = of_state(state)
    if seen not in (MachineIdentity(), known(node)):
        SITE.append(LOG, node, json.dumps(documents.unstructure(seen), sort_keys=True))


def known(node: str) -> MachineIdentity:
    """What was kept last. Raises StoreError."""
    line = SITE.newest(LOG, node)
    return documents.decode(MachineIdentity, line.text) if line else MachineIdentity()
