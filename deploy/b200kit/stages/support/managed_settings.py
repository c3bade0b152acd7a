"""The settings one node's inventory manages, beside what the node's last observation shows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from b200kit.catalog import hardware, load
from b200kit.inventory.spec import NodeSpec
from b200kit.node.host import settings_in_force, settings_table
from b200kit.node.host.settings_in_force import Effect, SettingState
from b200kit.node.host.settings_table import Setting, Value
from b200kit.node.state.view import StateView, View
from b200kit.run.node import Node
from b200kit.stages.support import setting_files


def table_of(spec: NodeSpec) -> dict[str, Setting]:
    """The settings that a node's hardware has."""
    left_out = hardware.load(spec.hardware).get("not_applicable", {})
    return settings_table.applying(load.load().settings, left_out)


class Managed:
    """Table, choice and state of a node; *state* stands in for the node's own."""

    def __init__(self, node: Node, state: Mapping[str, object] | None = None) -> None:
        self.observed = state is not None or node.state is not None
        self.raw = dict(state if state is not None else node.state or {})
        self.state = StateView(self.raw)
        self.table = table_of(node.spec)
        self.chosen: dict[str, Value] = settings_table.chosen(self.table, node.spec.settings)
        self.expected = settings_table.expected(self.table, node.spec.settings)

    @cached_property
    def effects(self) -> dict[str, Effect]:
        """Every setting that host.settings judges, by name."""
        mine = {n: entry for n, entry in self.expected.items() if entry["judged_by"] is None}
        return {effect.name: effect for effect in settings_in_force.effects(View(mine), self.state)}

    @property
    def requested(self) -> dict[str, list[str]]:
        """What an observation must be asked for."""
        return settings_table.requested(self.expected)

    def unit(self, name: str) -> Mapping[str, Any]:
        """What was read of a unit; nothing where it was not read."""
        units = self.raw.get("units")
        reading = units.get(name) if isinstance(units, dict) else None
        return reading if isinstance(reading, dict) else {}

    def at_boot(self, means: str) -> list[Effect]:
        """The settings of a means that are not in force, though only a boot brings them."""
        found = [
            effect
            for name, effect in self.effects.items()
            if boot_means(self.table[name]) == means and effect.standing is SettingState.WRONG
        ]
        loaded = isinstance(self.state.reading("modules", "nouveau"), bool | str)
        if means == "modprobe" and loaded and "nouveau" in self.chosen:
            found.append(Effect("nouveau", SettingState.WRONG, "is loaded", "loaded", "off"))
        return found

    def applies(self, name: str) -> bool:
        """Whether a managed setting is for this node; one that was not looked at may be."""
        return name in self.chosen and (
            not self.observed or setting_files.may_apply(self.table[name], self.state)
        )


def boot_means(setting: Setting) -> str | None:
    """What only a boot brings of a setting, by what it is read from; None comes at once."""
    if setting.reading == ("host", "cmdline"):
        return "cmdline"
    return "modprobe" if "modprobe" in setting.means else None
