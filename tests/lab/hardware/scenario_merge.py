"""How a scenario that `extends` another changes it. Pure: maps in, map out.

Maps merge key by key and everything else replaces. The lists `gpus`, `nics` and `numa_nodes` may be
changed item by item: write a map from an item's key (GPU index, NIC name, NUMA node id) to what
changes in it, or to null to take it out.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from tests.lab.hardware.scenario_shape import ScenarioError

#: The lists that can be changed item by item, and what an item is known by (None: its position).
KEYED_LISTS: dict[str, str | None] = {"gpus": None, "nics": "name", "numa_nodes": "id"}


def deep_merge(base: Mapping[Any, Any], change: Mapping[Any, Any]) -> dict[Any, Any]:
    """`base` with `change` laid over it; neither is modified."""
    merged = copy.deepcopy(dict(base))
    for key, value in change.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            merged[key] = deep_merge(old, value)
        else:
            merged[key] = copy.deepcopy(value)
    return merged


def _item_keys(items: list[dict[str, Any]], by: str | None) -> list[object]:
    return list(range(len(items))) if by is None else [item.get(by) for item in items]


def merge_items(
    items: list[dict[str, Any]], changes: Mapping[Any, Any], by: str | None, where: str
) -> list[dict[str, Any]]:
    """The list `items` with the keyed `changes` made; ScenarioError for an unknown item."""
    keys = _item_keys(items, by)
    for key in changes:
        if key not in keys:
            known = ", ".join(str(known) for known in keys)
            raise ScenarioError(f"{where}: there is no item {key!r} to change (there are {known})")
    merged = [
        item if key not in changes else _changed(item, changes[key], f"{where}.{key}")
        for key, item in zip(keys, items, strict=True)
    ]
    return [item for item in merged if item is not None]


def _changed(item: dict[str, Any], change: object, where: str) -> dict[str, Any] | None:
    if change is None:
        return None
    if not isinstance(change, dict):
        raise ScenarioError(f"{where}: expected a map of what changes, or null, got {change!r}")
    return deep_merge(item, change)


def extend(base: Mapping[str, Any], change: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The scenario `base` as changed by `change` (both as written, `extends` already resolved)."""
    plain = dict(change)
    lists: dict[str, Any] = {}
    for name, by in KEYED_LISTS.items():
        if isinstance(plain.get(name), dict):
            lists[name] = merge_items(base[name], plain.pop(name), by, f"{where}: {name}")
    return deep_merge(base, plain) | lists
