"""The lines of the files that set settings, for a node's choice of values. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from b200kit.node.host.settings_in_force import applicable, is_more, words_for
from b200kit.node.host.settings_table import Setting, Value
from b200kit.node.state.view import StateView, Unread

Chosen = Mapping[str, Value]
Table = Mapping[str, Setting]
V = TypeVar("V")


def using(table: Table, chosen: Mapping[str, V], means: str) -> Iterator[tuple[Any, V]]:
    """The entry for *means* of each chosen setting that has one, with the setting's value."""
    for name, value in chosen.items():
        if means in table[name].means:
            yield table[name].means[means], value


def sysctls(table: Table, chosen: Chosen, state: StateView) -> list[str]:
    """Lines of sysctl.d; a key that this kernel is known not to have is left out."""
    lines = []
    for name, value in chosen.items():
        key = table[name].means.get("sysctl")
        if key and not state.is_null(*table[name].reading):
            lines.append(f"{key} = {_kept(table[name], value, state)}")
    return lines


def _kept(setting: Setting, value: Value, state: StateView) -> object:
    """What a file says of a setting: where that is a floor, no less than the node has."""
    has = state.reading(*setting.reading)
    return has if setting.floor and is_more(has, value) else value


def cmdline(table: Table, chosen: Chosen, state: StateView) -> list[str]:
    """Words for the kernel command line; a CPU's own only where the CPU is known."""
    words: list[str] = []
    for by_value, value in using(table, chosen, "cmdline"):
        try:
            words += words_for(by_value[value], state)
        except Unread:
            words += str(by_value[value].get("all", "")).split()
    return words


def may_apply(setting: Setting, state: StateView) -> bool:
    """Whether a setting is for a node, also where that cannot be told."""
    try:
        return applicable(setting.applies, state)
    except Unread:
        return True


def tmpfiles(table: Table, chosen: Chosen, state: StateView) -> list[str]:
    """Lines of tmpfiles.d: write a value; what does not apply to the node is left out."""
    lines = []
    for name, value in chosen.items():
        path = table[name].means.get("tmpfiles")
        if path and may_apply(table[name], state):
            lines.append(f"w {path} - - - - {value}")
    return lines


def modprobe(table: Table, chosen: Chosen) -> list[str]:
    """Lines of modprobe.d."""
    return [
        line for by_value, value in using(table, chosen, "modprobe") for line in by_value[value]
    ]


def people(table: Table, chosen: Chosen, state: StateView) -> list[str]:
    """Lines of limits.d. pam_limits applies "*" to everybody but root.

    Only where root is known to be able to raise limits: elsewhere each login would log an error.
    """
    return [
        f"{who} - {item} {value}"
        for (item, _, _), value in using(table, chosen, "limit")
        for who in ("*", "root")
        if state.known(bool, "kernel", "raises_limits")
    ]


def services(table: Table, chosen: Chosen, state: StateView) -> list[str]:
    """Lines of the service manager's configuration; its word for unlimited is infinity."""
    if state.known(bool, "kernel", "raises_limits") is False:
        return []
    kept = {name: _kept(table[name], value, state) for name, value in chosen.items()}
    return [
        f"{directive}={form.format('infinity' if value in ('unlimited', -1) else value)}"
        for (_, directive, form), value in using(table, kept, "limit")
    ]
