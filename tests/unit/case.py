"""A case of the corpus: what differs from a recorded state, and what must be found."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from b200kit.catalog import load
from b200kit.inventory.settings import problems
from b200kit.node.host import settings_table as settings
from b200kit.node.state import advice
from b200kit.node.state.verdict import Finding
from tests.unit import node_schema, numa_map, paths, states

EXPECTATION_KEYS = {
    *("schema", "hardware", "driver", "gpu_count", "services", "waivers", "today"),
    *("clock_synchronized", "settings", "passport", "bandwidth", "bring_up", "container_runtimes"),
    *(
        "firewall",
        "storage",
        "time_services",
        "logs",
        "unfinished",
        "placement",
        "watchdog",
        "proof",
        "precision",
    ),
    *("quarantine", "serving", "room", "certificates", "automatic"),
    "weights",
}
Json = dict[str, Any]


@dataclass(frozen=True)
class Wanted:
    """A finding that must be among those of the verdict."""

    check: str
    action: str
    subject: str = ""
    says: str = ""
    status: str = ""
    advice: str = ""

    def matches(self, finding: Finding, fit: str) -> bool:
        """Whether a finding is this one; without a status it blocks where the node is not fit."""
        status = self.status == finding.status.value
        return (
            finding.check == self.check
            and finding.action.word == self.action
            and (status if self.status else finding.blocks == (fit != "fit"))
            and self.subject in ("", finding.subject)
            and self.tells(finding)
            and self.advice in advice.of(finding)
        )

    def tells(self, finding: Finding) -> bool:
        """Whether a finding says, or was read from, what this one says."""
        return self.says in f"{finding.summary} {finding.read}"


@dataclass(frozen=True)
class Case:
    """One state of a node with its verdict."""

    name: str
    source: str
    fit: str
    file: str = ""
    covers: tuple[str, ...] = ()
    hardware: str = "hgx-b200"
    base: str = "healthy-hgx-b200"
    numa: Mapping[str, Any] = field(default_factory=dict)
    set: Mapping[str, Any] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    expect: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[Wanted, ...] = ()
    alone: bool = False
    valid: bool = True

    @property
    def id(self) -> str:
        """Name in test reports."""
        return f"{self.file}: {self.name}"

    def expectation(self) -> Json:
        """What the node of this case is judged by."""
        document = states.expectation(self.hardware)
        if self.settings:
            document["settings"] = self.managed()
        apply(document, self.expect, EXPECTATION_KEYS)
        return document

    def managed(self) -> Json:
        """The settings of an inventory that says what this case says; ValueError if it may not."""
        known, overrides = load.load().settings, list(self.settings.items())
        for problem in problems(overrides, known):
            raise ValueError(f"{problem.key}: {problem.message}")
        return settings.expected(known, overrides)

    def state(self) -> Json:
        """A fresh state, as the case spoils it."""
        state = states.recorded(self.base)
        self.spoil(state)
        return state

    def spoil(self, state: Json) -> None:
        """Spoil another state as this case does; PathError where it has no such place."""
        if self.numa:
            numa_map.apply(state, **self.numa)
        apply(state, self.set, None)
        places = [path for text in self.drop for path in paths.matching(state, paths.parse(text))]
        paths.remove(state, places)

    def invalid(self) -> list[str]:
        """What the schema says against the state: of lists, against the entries that changed."""
        return node_schema.problems(changed(self.state(), states.recorded(self.base)))


def changed(new: Any, old: Any) -> Any:
    """A document without the entries of its lists that are in another document, too."""
    if isinstance(new, dict) and isinstance(old, dict):
        return {key: changed(value, old.get(key)) for key, value in new.items()}
    if isinstance(new, list) and isinstance(old, list):
        pairs = zip_longest(new, old[: len(new)])
        return [changed(one, other) for one, other in pairs if one != other]
    return new


def apply(document: Json, changes: Mapping[str, Any], keys: set[str] | None) -> None:
    """Put values in place; a key that is new must be one the schema, or `keys`, knows."""
    for text, value in changes.items():
        path = paths.parse(text)
        for above in paths.matching(document, path[:-1]) if path[1:] else [()]:
            for place in _places(document, (*above, path[-1]), keys):
                paths.put(document, place, deepcopy(value))


def _places(document: Json, path: paths.Path, keys: set[str] | None) -> list[paths.Path]:
    """Where to put a value: what is there, or one new key."""
    try:
        return paths.matching(document, path)
    except paths.PathError:
        above = paths.at(document, path[:-1])
        known = node_schema.parts_at(path) if keys is None else len(path) > 1 or path[0] in keys
        if isinstance(above, dict) and isinstance(path[-1], str) and known:
            return [path]
        raise
