"""Settings of the operating system: the table, what an inventory makes of it, what is expected.

Pure. The table is b200kit/catalog/settings.yaml, read by b200kit/catalog/load.py; its keys are
explained there. An inventory overrides defaults by name; None means that a setting is neither set
nor judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from b200kit.node.lib import documents

# What a kernel may simply not have; an option of a module that is not there is a fault.
MAY_BE_ABSENT = ("sysctl", "tmpfiles")

Value = str | int
Overrides = Iterable[tuple[str, object]]


@dataclass(frozen=True)
class Setting:
    """One entry of the table; `default` None is a setting that is only there to be asked for."""

    name: str
    what: str
    why: str
    source: str
    date: str
    kind: Literal["measured", "quoted", "inferred"]
    applies: Literal["always", "intel", "amd", "cpufreq", "acs", "limits"]
    default: Value | None
    values: Any
    reading: tuple[str, ...]
    means: Mapping[str, Any]
    judged_by: str | None = None
    floor: bool = False
    effect: Mapping[str, Any] | None = None

    def allows(self, value: object) -> bool:
        """Whether an inventory may ask for a value; True is no 1."""
        if isinstance(value, bool):
            return False
        if isinstance(self.values, list):
            return value in self.values
        within = isinstance(value, int) and self.values["from"] <= value <= self.values["to"]
        return within or value in self.values.get("or", [])

    @property
    def allowed(self) -> str:
        """The allowed values, as a person reads them."""
        if isinstance(self.values, list):
            return ", ".join(map(str, self.values))
        more = "".join(f", {word}" for word in self.values.get("or", []))
        return f"{self.values['from']} to {self.values['to']}{more}"


def table(document: dict[str, Any]) -> dict[str, Setting]:
    """Every setting by name; raises Malformed for what is missing, unknown or of another kind."""
    entries = {name: {"name": name, **entry} for name, entry in document["settings"].items()}
    return documents.structure(dict[str, Setting], entries)


def applying(known: Mapping[str, Setting], left_out: Iterable[str]) -> dict[str, Setting]:
    """The settings of a hardware: without those whose check does not apply to it."""
    checks = set(left_out)
    return {name: setting for name, setting in known.items() if setting.judged_by not in checks}


def chosen(known: Mapping[str, Setting], overrides: Overrides) -> dict[str, Value]:
    """Setting to value, for those that are managed."""
    given = dict(overrides)
    values = {name: given.get(name, setting.default) for name, setting in known.items()}
    return {name: value for name, value in values.items() if isinstance(value, str | int)}


def expected(known: Mapping[str, Setting], overrides: Overrides) -> dict[str, dict[str, Any]]:
    """The expectation's section `settings`: all that a node needs to judge without the table."""
    return {name: _expected(known[name], value) for name, value in chosen(known, overrides).items()}


def _expected(setting: Setting, value: Value) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "desired": value,
        "what": setting.what,
        "source": f"settings.yaml: {setting.source}",
        "applies": setting.applies,
        "reading": list(setting.reading),
        "may_be_absent": any(means in setting.means for means in MAY_BE_ABSENT),
        "judged_by": setting.judged_by,
        "floor": setting.floor,
    }
    if setting.reading == ("host", "cmdline"):
        entry["words"] = dict(setting.means["cmdline"][value])
        entry["effect"] = dict(setting.effect) if setting.effect else None
    return entry


def requested(settings: object) -> dict[str, list[str]]:
    """What must be asked of a node to judge an expectation's settings, by key of the request.

    Odd entries ask for nothing here; the check says what is wrong with them.
    """
    entries = settings.values() if isinstance(settings, Mapping) else ()
    readings = [entry.get("reading") for entry in entries if isinstance(entry, Mapping)]
    paths = [path for path in readings if isinstance(path, list) and len(path) == 3]
    keys = {str(path[1]) for path in paths} & {"sysctls", "module_parameters"}
    return {
        key: sorted(str(path[2]) for path in paths if path[:2] == ["kernel", key])
        for key in sorted(keys)
    }
