"""What a node of an inventory is to serve; nothing is connected to."""

from __future__ import annotations

from pathlib import Path

from b200kit.inventory.spec import NodeSpec
from b200kit.operations import inventory_process, preflight
from b200kit.operations.inventory_process import InventoryRefused, asked
from b200kit.quality import kept
from b200kit.quality.kept import ServedModel


@asked
def of_node(path: Path, name: str) -> ServedModel:
    """`kept.served` of a node. Raises InventoryRefused where that is not known."""
    spec = preflight.parsed(inventory_process.host(path, name), {})
    if isinstance(spec, NodeSpec):
        return kept.served(spec)
    raise InventoryRefused([f"{path}: {name}: {spec[0].key}: {spec[0].message}"])
